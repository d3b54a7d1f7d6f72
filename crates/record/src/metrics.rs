//! The samples of one record, by the formulas of `assay-metric`.

use assay_metric::{Field, Gap, Jitter, RequestFields, TpotDivisor, gaps, since_ns, tpot_ns};

use crate::Record;

impl Record {
    /// The start of latencies: the intended time of a request that has one, else the send time.
    pub fn start_ns(&self) -> Option<i64> {
        self.intended_ns.or(self.sent_ns)
    }

    /// The facts that the formulas read.
    pub fn fields(&self) -> RequestFields {
        let mut fields = RequestFields::default();
        fields.set(Field::Start, self.start_ns());
        fields.set(Field::Intended, self.intended_ns);
        fields.set(Field::Ready, self.ready_ns);
        fields.set(Field::ConnectStart, self.connect_start_ns);
        fields.set(Field::ConnectEnd, self.connect_end_ns);
        fields.set(Field::Sent, self.sent_ns);
        fields.set(Field::FirstToken, self.first_token_ns);
        fields.set(Field::FirstContent, self.first_content_ns);
        fields.set(Field::LastToken, self.last_token_ns);
        fields.set(Field::OutputTokens, self.output_tokens.map(Into::into));
        fields.set(Field::FirstEventTokens, self.first_event_tokens.map(Into::into));
        fields.set(Field::InputTokens, Some(self.input_tokens.into()));
        fields.set(Field::EndpointInputTokens, self.input_tokens_endpoint.map(Into::into));
        fields.set(Field::CachedTokens, self.cached_tokens.map(Into::into));
        fields.set(Field::Turn, self.turn.map(Into::into));
        fields.set(Field::Stream, self.stream.map(Into::into));
        fields.set(Field::SessionTurns, self.session_turns.map(Into::into));
        fields.set(Field::SessionDone, self.session_done.map(Into::into));
        fields.set(Field::SessionStart, self.session_start_ns);
        fields.set(Field::SessionPauses, self.session_pauses_ns);
        fields.set(Field::Planned, self.planned_ns);
        fields.set(Field::InputTokensRequested, self.input_tokens_requested.map(Into::into));
        fields.set(Field::OutputTokensRequested, self.output_tokens_requested.map(Into::into));
        fields
    }

    /// The delay of sending after the intended time, in nanoseconds.
    pub fn lateness_ns(&self) -> Option<i64> {
        since_ns(self.intended_ns, self.sent_ns)
    }

    /// The client's own part of that delay, in nanoseconds: without the time for which the request waited for a place among those in
    /// flight.
    pub fn client_lateness_ns(&self) -> Option<i64> {
        since_ns(self.ready_ns.or(self.intended_ns), self.sent_ns)
    }

    /// TTFT: the first token event, since [`Record::start_ns`].
    pub fn ttft_ns(&self) -> Option<i64> {
        since_ns(self.start_ns(), self.first_token_ns)
    }

    /// TTFO: the first content event, since [`Record::start_ns`].
    pub fn ttfo_ns(&self) -> Option<i64> {
        since_ns(self.start_ns(), self.first_content_ns)
    }

    /// E2E: the last token event, since [`Record::start_ns`].
    pub fn e2e_ns(&self) -> Option<i64> {
        since_ns(self.start_ns(), self.last_token_ns)
    }

    /// TPOT of the request.
    pub fn tpot_ns(&self) -> Option<(f64, TpotDivisor)> {
        tpot_ns(self.first_token_ns, self.last_token_ns, self.output_tokens, self.first_event_tokens)
    }

    /// The gaps between its token events.
    pub fn gaps(&self) -> Vec<Gap> {
        let at_ns: Vec<i64> = self.chunks.iter().map(|chunk| chunk.at_ns).collect();
        gaps(&at_ns, |place| self.chunks.get(place)?.tokens).collect()
    }

    /// Jitter of the request, in nanoseconds. `None` for fewer than two gaps.
    pub fn jitter_ns(&self) -> Option<f64> {
        let mut jitter = Jitter::default();
        self.gaps().iter().for_each(|gap| jitter.add(gap.gap_ns));
        jitter.mean_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, Outcome};

    /// Sent 100 ns after the intended time 1,000; reasoning at 1,600, content from 1,900, six tokens until 2,600, closed at
    /// 3,000.
    fn request() -> Record {
        let chunk = |(at_ns, tokens)| Chunk { at_ns, bytes: 4, tokens };
        Record {
            intended_ns: Some(1_000),
            sent_ns: Some(1_100),
            first_token_ns: Some(1_600),
            first_content_ns: Some(1_900),
            last_token_ns: Some(2_600),
            end_ns: Some(3_000),
            outcome: Outcome::Ok,
            output_tokens: Some(6),
            first_event_tokens: Some(2),
            token_events: 4,
            chunks: [(1_600, Some(2)), (1_900, Some(1)), (2_000, Some(0)), (2_600, Some(3))].map(chunk).to_vec(),
            ..Record::default()
        }
    }

    #[test]
    fn latencies_count_from_the_intended_time() {
        let open = request();
        assert_eq!(
            (open.ttft_ns(), open.ttfo_ns(), open.e2e_ns(), open.lateness_ns()),
            (Some(600), Some(900), Some(1_600), Some(100))
        );
        let waited = Record { ready_ns: Some(1_070), ..request() };
        assert_eq!(
            (waited.lateness_ns(), waited.client_lateness_ns(), open.client_lateness_ns()),
            (Some(100), Some(30), Some(100))
        );
        let closed = Record { intended_ns: None, ..request() };
        assert_eq!(
            (closed.ttft_ns(), closed.ttfo_ns(), closed.e2e_ns(), closed.lateness_ns()),
            (Some(500), Some(800), Some(1_500), None)
        );
    }

    #[test]
    fn what_did_not_happen_is_absent() {
        let dropped = Record { intended_ns: Some(5), ..Record::default() };
        assert_eq!((dropped.ttft_ns(), dropped.ttfo_ns(), dropped.e2e_ns(), dropped.lateness_ns()), (None, None, None, None));
        assert_eq!((dropped.tpot_ns(), dropped.jitter_ns(), dropped.gaps()), (None, None, vec![]));
        let only_reasoning = Record { first_content_ns: None, ..request() };
        assert_eq!((only_reasoning.ttft_ns(), only_reasoning.ttfo_ns()), (Some(600), None));
        assert_eq!(since_ns(Some(i64::MIN), Some(i64::MAX)), None, "no number of nanoseconds");
    }

    #[test]
    fn icl_is_each_gap_and_itl_each_gap_over_its_tokens() {
        let gaps = request().gaps();
        assert_eq!(gaps.iter().map(|gap| gap.gap_ns).collect::<Vec<_>>(), [300, 100, 600]);
        // One token after 300 ns; part of a token; three tokens in 600 ns.
        assert_eq!(gaps.iter().map(|gap| gap.itl_ns()).collect::<Vec<_>>(), [(300.0, 1), (100.0, 0), (200.0, 3)]);
        assert_eq!(Gap { gap_ns: 700, tokens: None }.itl_ns(), (700.0, 1));
        assert_eq!(super::gaps(&[5], |_| None).count(), 0);
        assert_eq!(super::gaps(&[i64::MIN, i64::MAX], |_| None).next().map(|gap| gap.gap_ns), Some(i64::MAX));
    }

    #[test]
    fn jitter_is_the_mean_difference_of_consecutive_gaps() {
        // Gaps 300, 100, 600: differences 200 and 500.
        assert_eq!(request().jitter_ns(), Some(350.0));
        let of_gaps = |gaps: &[i64]| {
            let mut jitter = Jitter::default();
            for gap in gaps {
                jitter.add(*gap);
            }
            jitter.mean_ns()
        };
        assert_eq!((of_gaps(&[]), of_gaps(&[5]), of_gaps(&[5, 5]), of_gaps(&[5, 8])), (None, None, Some(0.0), Some(3.0)));
    }
}
