//! Which pieces of evidence of two sides belong together: by their names, or else by the times of their import.

use assay_manifest::ForeignPairing;

use super::ImportedPiece;

/// The pieces of one side, in the order in which they are judged.
pub(super) type Pieces<'a, 'b> = Vec<&'b ImportedPiece<'a>>;

/// Returns the pieces of both sides and what pairs them. Paired pieces are in the order of the pairs; others in that of their import.
pub(super) fn pair_pieces<'a, 'b>(
    baseline: &'b [ImportedPiece<'a>],
    candidate: &'b [ImportedPiece<'a>],
) -> (ForeignPairing, [Pieces<'a, 'b>; 2]) {
    if let Some(pairs) = by_name(baseline, candidate) {
        return (ForeignPairing::Names, pairs);
    }
    let sides = [baseline, candidate].map(by_time);
    let [first, second] = &sides;
    let pairing = if takes_turns(first, second) { ForeignPairing::Times } else { ForeignPairing::Unpaired };
    (pairing, sides)
}

fn by_time<'a, 'b>(pieces: &'b [ImportedPiece<'a>]) -> Pieces<'a, 'b> {
    let mut pieces: Pieces<'a, 'b> = pieces.iter().collect();
    pieces.sort_by_key(|piece| (piece.piece.imported_at, piece.piece.name.clone()));
    pieces
}

/// Returns true if the sides took turns: of the first two imports one is of each side, and so are the next two.
fn takes_turns(baseline: &[&ImportedPiece<'_>], candidate: &[&ImportedPiece<'_>]) -> bool {
    let time = |piece: &&ImportedPiece<'_>| piece.piece.imported_at;
    let rounds: Vec<_> = baseline.iter().zip(candidate).map(|(one, other)| [time(one), time(other)]).collect();
    let are_apart = rounds.windows(2).all(|next| match next {
        [before, after] => before.iter().max() < after.iter().min(),
        _ => true,
    });
    baseline.len() == candidate.len() && are_apart
}

/// The part of a name that tells the pieces of one side apart. Numbers are in their order: 2 is before 10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tail(Option<u64>, String);

/// Pairs pieces whose names are the same after what all names of their side begin with, such as `before-3` and `after-3`.
fn by_name<'a, 'b>(baseline: &'b [ImportedPiece<'a>], candidate: &'b [ImportedPiece<'a>]) -> Option<[Pieces<'a, 'b>; 2]> {
    let [first, second] = [baseline, candidate].map(|pieces| {
        let mut named: Vec<_> = tails(pieces).into_iter().zip(pieces).collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        named
    });
    let are_equal = first.len() == second.len() && first.iter().zip(&second).all(|((one, _), (other, _))| one == other);
    let are_distinct = first.windows(2).all(|next| matches!(next, [(one, _), (other, _)] if one != other));
    let pieces = |named: Vec<(Tail, &'b ImportedPiece<'a>)>| named.into_iter().map(|(_, piece)| piece).collect();
    (are_equal && are_distinct).then(|| [pieces(first), pieces(second)])
}

fn tails(pieces: &[ImportedPiece<'_>]) -> Vec<Tail> {
    let names: Vec<&str> = pieces.iter().map(|piece| piece.piece.name.as_str()).collect();
    let head = common_head(&names);
    let tail = |name: &&str| {
        let rest = name.get(head..).unwrap_or_default();
        Tail(rest.parse().ok(), rest.to_owned())
    };
    names.iter().map(tail).collect()
}

/// Returns the length of what all names begin with, up to and with its last `-`: `before-1` and `before-12` begin with `before-`.
fn common_head(names: &[&str]) -> usize {
    let Some((first, rest)) = names.split_first() else { return 0 };
    let common = |other: &&str| first.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    // The only piece of a side has nothing that it is told apart from.
    let shortest = rest.iter().map(common).min().unwrap_or(first.len());
    let is_alone = rest.is_empty();
    let head = first.get(..shortest).unwrap_or_default();
    if is_alone { shortest } else { head.rfind('-').map_or(0, |at| at + 1) }
}
