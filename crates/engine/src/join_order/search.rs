//! Searches for the tree of joins with the fewest rows between them.
//!
//! The cost of a tree is the rows of all joins below the last, and of the smaller side of each, which is the
//! build side. A build side from a join has at most the number of columns of a build side on the device. Up
//! to a dozen relations all trees without cross products are compared, by dynamic programming over sets of
//! relations (Moerkotte and Neumann, VLDB 2006). For more, the two sets with the fewest joined rows are
//! joined, until one is left.

use super::JoinOrderPolicy;
use super::estimate::Estimates;
use super::region::{Region, Set, Tree};
use galatea_expression::MAX_PAYLOAD;
use std::collections::HashMap;

/// A tree that is expected to be considerably cheaper than the written one.
pub(super) fn better_tree(region: &Region, estimates: &Estimates) -> Option<Tree> {
    let best = if estimates.relations() <= JoinOrderPolicy::DEFAULT.all_trees {
        best_tree(region, estimates)?
    } else {
        greedy_tree(region, estimates)?
    };
    let pays = cost(estimates, &best) <= JoinOrderPolicy::DEFAULT.gain * cost(estimates, &region.written);
    pays.then_some(best)
}

/// The cost of a tree.
pub(super) fn cost(estimates: &Estimates, tree: &Tree) -> f64 {
    match tree {
        Tree::Relation(_) => 0.0,
        Tree::Join(left, right) => {
            let below = |side: &Tree| {
                let rows = match side {
                    Tree::Relation(_) => 0.0,
                    Tree::Join(..) => estimates.rows(side.set()),
                };
                cost(estimates, side) + rows
            };
            let built = estimates.rows(left.set()).min(estimates.rows(right.set()));
            below(left) + below(right) + built
        }
    }
}

/// The best way to join a set.
struct Best {
    rows: f64,
    /// Without the rows of the set itself.
    cost: f64,
    /// One of the two sets that are joined last; empty: a single relation.
    left: Set,
    neighbours: Set,
    /// Whether it has few enough columns for a build side.
    narrow: bool,
}

/// The cheapest of all trees without cross products; `None` if none exists.
fn best_tree(region: &Region, estimates: &Estimates) -> Option<Tree> {
    let sets = 1 << estimates.relations();
    // By set; a set that needs a cross product has none.
    let mut best: Vec<Option<Best>> = Vec::with_capacity(sets);
    best.push(None);
    for set in 1..sets as Set {
        let joined = match set.is_power_of_two() {
            true => Some((0.0, 0)),
            false => best_join(&best, set),
        };
        best.push(joined.map(|(cost, left)| Best {
            rows: estimates.rows(set),
            cost,
            left,
            neighbours: estimates.neighbours(set),
            narrow: is_narrow(region, set),
        }));
    }
    tree_of(&best, sets as Set - 1)
}

/// Whether a set can be a build side: a single relation can, as in any other order, and a join if it has few
/// columns.
fn is_narrow(region: &Region, set: Set) -> bool {
    set.is_power_of_two() || region.width(set) <= MAX_PAYLOAD
}

/// The cheapest join of two subsets: its cost, and one of the subsets.
fn best_join(best: &[Option<Best>], set: Set) -> Option<(f64, Set)> {
    let below = |side: &Best| side.cost + if side.left == 0 { 0.0 } else { side.rows };
    let mut found: Option<(f64, Set)> = None;
    // The subsets with its highest relation.
    let highest = 1 << set.ilog2();
    let mut left = (set - 1) & set;
    while left >= highest {
        let right = set & !left;
        if let (Some(one), Some(other)) = (&best[left as usize], &best[right as usize])
            && one.neighbours & right != 0
            && if one.rows < other.rows {
                one.narrow
            } else {
                other.narrow
            }
        {
            let cost = below(one) + below(other) + one.rows.min(other.rows);
            if found.is_none_or(|(least, _)| cost < least) {
                found = Some((cost, left));
            }
        }
        left = (left - 1) & set;
    }
    found
}

fn tree_of(best: &[Option<Best>], set: Set) -> Option<Tree> {
    Some(match best[set as usize].as_ref()?.left {
        0 => Tree::Relation(set.trailing_zeros() as usize),
        left => Tree::join(tree_of(best, left)?, tree_of(best, set & !left)?),
    })
}

/// A tree that the greedy search has joined so far, with cached properties.
struct Part {
    tree: Tree,
    set: Set,
    rows: f64,
    neighbours: Set,
    narrow: bool,
}

impl Part {
    fn new(tree: Tree, rows: f64, region: &Region, estimates: &Estimates) -> Self {
        let set = tree.set();
        Self {
            tree,
            set,
            rows,
            neighbours: estimates.neighbours(set),
            narrow: is_narrow(region, set),
        }
    }

    /// Whether the two can be joined: by keys, and with the smaller one as the build side.
    fn joins(&self, other: &Self) -> bool {
        let built = if other.rows < self.rows { other } else { self };
        self.neighbours & other.set != 0 && built.narrow
    }
}

/// Joins the two sets with the fewest joined rows first; `None` if only a cross product remains.
fn greedy_tree(region: &Region, estimates: &Estimates) -> Option<Tree> {
    let part = |tree: Tree, rows| Part::new(tree, rows, region, estimates);
    let mut parts: Vec<Part> = (0..estimates.relations())
        .map(|relation| part(Tree::Relation(relation), estimates.rows(1 << relation)))
        .collect();
    let mut rows: HashMap<Set, f64> = HashMap::new();
    while parts.len() > 1 {
        let mut found: Option<(f64, usize, usize)> = None;
        for right in 1..parts.len() {
            for left in 0..right {
                if !parts[left].joins(&parts[right]) {
                    continue;
                }
                let set = parts[left].set | parts[right].set;
                let rows = *rows.entry(set).or_insert_with(|| estimates.rows(set));
                if found.is_none_or(|(least, ..)| rows < least) {
                    found = Some((rows, left, right));
                }
            }
        }
        let (rows, left, right) = found?;
        let right = parts.swap_remove(right).tree;
        let left_tree = std::mem::replace(&mut parts[left].tree, Tree::Relation(0));
        parts[left] = part(Tree::join(left_tree, right), rows);
    }
    parts.pop().map(|part| part.tree)
}
