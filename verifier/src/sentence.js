// The answer, in one sentence that is true of what was found and says no more.

import { shown } from "./refusal.js";

const DIGEST = /sha256:([0-9a-f]{12})[0-9a-f]{52}/g;

/** Digests by their first twelve digits, for a sentence. */
export const shortened = (text) => text.replace(DIGEST, "sha256:$1…");

/** A count with its digits in groups, and a size in bytes as people say it. */
export const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
export const sized = (bytes) =>
  bytes < 1000 ? `${bytes} bytes` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

/** The level in words: what `assay verify` does at level 2 and this page does not is named with it. */
export const LEVEL_2 = "2 of 4, without plan, queries, grade and reports";

const OF_TRUST = ["trust", "trust_policy", "trust_key"];
const OF_READING = ["not_a_folder", "folder_too_large", "too_many_files", "unreadable", "unexpected", "superseded"];

/** The sentence over a result. */
export function conclusion({ failure, established, runId, strangers, trustUnchecked = [] }) {
  if (failure) return `${failureSubject(failure.code)}: ${shortened(failure.message)} (\`${failure.code}\`).`;
  const signer = established ? "signed by those whom you trust" : "internally consistent; signer not established";
  const many = strangers.length === 1 ? "One file in it is" : `${grouped(strangers.length)} files in it are`;
  const more = [
    strangers.length > 0 ? ` ${many} not of the run: nothing vouches for ${strangers.length === 1 ? "it" : "them"}.` : "",
    established && trustUnchecked.length > 0 ? " Your trust policy asks for more than this page checks; it is named below." : "",
  ];
  return `The run \`${shown(runId)}\` verifies to level ${LEVEL_2}: ${signer}.${more.join("")}`;
}

function failureSubject(code) {
  if (OF_TRUST.includes(code)) return "What you pasted cannot be used";
  return OF_READING.includes(code) ? "Nothing was verified" : "This folder does not verify";
}
