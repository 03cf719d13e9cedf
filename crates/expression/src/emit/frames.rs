//! Start and end of a row's frame in the order of a window.

use super::Emitter;
use super::datetime::VALID_DAYS;
use super::windows::Rows;
use crate::built::Part;
use crate::interval::Interval;
use crate::kind::Kind;
use crate::lookup_side::Table;
use crate::timestamp_units::DAY_SECONDS;
use crate::value::Value;
use crate::windows::{Distance, Frame, FrameBound, RangeKey, Units, WindowWord};
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    /// Defines the frame of the row.
    pub(super) fn frame(&mut self, rows: Rows<'_>, frame: &Frame) -> Result<String, Reason> {
        let begin = self.bound(rows, frame, frame.start, false)?;
        let end = self.bound(rows, frame, frame.end, true)?;
        Ok(self.define_as("WindowFrame", &format!("window_frame({begin}, {end})")))
    }

    /// C++ expression of the start (or end) position of a frame.
    fn bound(
        &mut self,
        rows: Rows<'_>,
        frame: &Frame,
        bound: FrameBound,
        is_end: bool,
    ) -> Result<String, Reason> {
        let Rows { table, place, .. } = rows;
        let (distance, behind) = match bound {
            FrameBound::Unbounded if is_end => return Ok(format!("{place}.end")),
            FrameBound::Unbounded => return Ok(format!("{place}.begin")),
            FrameBound::CurrentRow => {
                return Ok(match (frame.units, is_end) {
                    (Units::Rows, false) => format!("{place}.place"),
                    (Units::Rows, true) => format!("{place}.place + 1u"),
                    (_, false) => format!("{place}.peers_begin"),
                    (_, true) => format!("{place}.peers_end"),
                });
            }
            FrameBound::Preceding(distance) => (distance, false),
            FrameBound::Following(distance) => (distance, true),
        };
        if let Units::Range(key) = frame.units {
            let key = key.ok_or_else(|| refuse("its order has no key to count by"))?;
            return self.range_bound(rows, key, (distance, behind), is_end);
        }
        let Distance::Number(distance) = distance else {
            return Err(refuse("a frame bound that is not a number"));
        };
        // All distances beyond 32 bits are equivalent.
        let most = i128::from(u32::MAX);
        let groups = frame.units == Units::Groups;
        let distance = match (groups, behind, is_end) {
            (true, true, true) => distance.min(most) + 1,
            _ => distance.min(most),
        };
        let distance = self.parameter(distance as u64);
        Ok(match (groups, behind, is_end) {
            (false, false, false) => format!("window_before({place}, args.literals[{distance}])"),
            (false, false, true) => format!("window_end_before({place}, args.literals[{distance}])"),
            (false, true, false) => format!("window_behind({place}, args.literals[{distance}])"),
            (false, true, true) => format!("window_end_behind({place}, args.literals[{distance}])"),
            (true, false, false) => {
                format!("window_groups_before({table}, {place}, args.literals[{distance}])")
            }
            (true, false, true) => {
                format!("window_groups_end_before({table}, {place}, args.literals[{distance}])")
            }
            (true, true, _) => format!("window_groups_behind({table}, {place}, args.literals[{distance}])"),
        })
    }

    /// C++ expression of the start (or end) of the keys in the partition that are within the distance of the
    /// row's key.
    fn range_bound(
        &mut self,
        rows: Rows<'_>,
        key: RangeKey,
        (distance, behind): (Distance, bool),
        is_end: bool,
    ) -> Result<String, Reason> {
        let Rows { table, place, .. } = rows;
        let payload = rows.column(key.column)?;
        // The type is relevant only for date keys.
        let own = self.stored(rows, payload, &format!("{place}.row"), None, &DataType::Date32)?;
        let descending = key.order.descending;
        let adds = behind != descending;
        let bound = match distance {
            Distance::Number(number) => self.number_bound(&own, key, number, (adds, behind, is_end))?,
            Distance::Float(float) => self.float_bound(&own, float, adds),
            Distance::Interval {
                months,
                days,
                nanoseconds,
            } => {
                let sign = if adds { 1 } else { -1 };
                let interval = (sign * months, sign * days, i64::from(sign) * nanoseconds);
                self.date_bound(&own, interval)?
            }
        };
        let Table::Built(Part::Values(position)) = payload.table else {
            return Err(refuse("its key is not there"));
        };
        let entry = rows.entry(
            payload.c_type,
            WindowWord::column(position),
            &format!("window_row({table}, at)"),
        );
        let Bound { code, c_type, .. } = &bound;
        let entry = match own.kind {
            Kind::F32 | Kind::F64 => format!("rank_f64(double({entry}))"),
            _ => format!("{c_type}({entry})"),
        };
        let keys = format!("[&](u32 at) {{ return {entry}; }}");
        // NULLs are peers of each other, at one end of the partition, and not within any distance of other
        // keys.
        let (low, high) = match (&payload.nulls, key.order.nulls_first) {
            (Some(Table::Built(Part::Nulls(position))), first) => {
                let word = WindowWord::column(*position) + 1;
                let is_null = |at: &str| {
                    format!(
                        "table_bit((const u8*)window_part<u32>({table}, {word}u), window_row({table}, {at}))"
                    )
                };
                let starts = |peer: &str| rows.entry("u32", WindowWord::PeerStarts as usize, peer);
                match first {
                    true => (
                        format!(
                            "{} ? {} : {place}.begin",
                            is_null(&format!("{place}.begin")),
                            starts(&format!("{place}.first_peer + 1u"))
                        ),
                        format!("{place}.end"),
                    ),
                    false => (
                        format!("{place}.begin"),
                        format!(
                            "{} ? {} : {place}.end",
                            is_null(&format!("{place}.end - 1u")),
                            starts(&format!("{place}.end_peer - 1u"))
                        ),
                    ),
                }
            }
            _ => (format!("{place}.begin"), format!("{place}.end")),
        };
        let (low, high) = (self.define_as("u32", &low), self.define_as("u32", &high));
        let found = format!("window_search({low}, {high}, {code}, {descending}, {is_end}, {keys})");
        let found = match &bound.beyond {
            None => found,
            Some((condition, edge)) => {
                let found = self.define_as("u32", &found);
                format!("{condition} ? {place}.{edge} : {found}")
            }
        };
        let found = match &own.null {
            None => found,
            Some(null) if is_end => format!("{null} ? {place}.peers_end : ({found})"),
            Some(null) => format!("{null} ? {place}.peers_begin : ({found})"),
        };
        Ok(self.define_as("u32", &found))
    }

    /// The bound at a distance from an integer key.
    fn number_bound(
        &mut self,
        own: &Value,
        key: RangeKey,
        distance: i128,
        (adds, behind, is_end): (bool, bool, bool),
    ) -> Result<Bound, Reason> {
        let reach = Interval::point(if adds { distance } else { -distance });
        let interval = own.interval().add(reach);
        let interval = interval.ok_or_else(|| refuse("its bounds may leave 128 bits"))?;
        let long = Interval::of::<i64>();
        let c_type = match interval.within(long) && own.interval().within(long) {
            true => "i64",
            false => "i128",
        };
        let offset = self.wide_parameter(reach.low);
        let offset = format!(
            "make_i128(args.literals[{offset}], args.literals[{}])",
            offset + 1
        );
        let mut bound = format!("{c_type}(i128({}) + {offset})", own.code);
        let (least, greatest) = key.domain;
        let clamps = least == 0 && !adds;
        if clamps {
            let unclamped = self.define_as(c_type, &bound);
            bound = format!("{unclamped} < 0 ? {c_type}(0) : {unclamped}");
        }
        let code = self.define_as(c_type, &bound);
        // As in DataFusion, a bound outside the type's range is the partition's bound.
        let edge = match (behind, is_end) {
            (true, _) => Some("end"),
            (false, false) => Some("begin"),
            (false, true) => None,
        };
        let domain = Interval {
            low: least,
            high: greatest,
        };
        let beyond = edge.filter(|_| !clamps && !interval.within(domain));
        let beyond = beyond.map(|edge| {
            let (limit, beyond) = if adds { (greatest, '>') } else { (least, '<') };
            let limit = self.wide_parameter(limit);
            let limit = format!("make_i128(args.literals[{limit}], args.literals[{}])", limit + 1);
            (format!("i128({code}) {beyond} {limit}"), edge)
        });
        Ok(Bound { code, c_type, beyond })
    }

    /// The rank of the bound at a distance from a float key, in the key's precision; for NaN, the rank of
    /// NaN.
    fn float_bound(&mut self, own: &Value, distance: f64, adds: bool) -> Bound {
        let name = if adds { "float_add" } else { "float_subtract" };
        let c_type = own.kind.c_type();
        let distance = self.parameter(distance.to_bits());
        let distance = format!("{c_type}(double_of_bits(args.literals[{distance}]))");
        let other = self.define(&own.kind, &format!("{name}({}, {distance})", own.code));
        Bound {
            code: self.define_as("u64", &format!("rank_f64(double({other}))")),
            c_type: "u64",
            beyond: None,
        }
    }

    /// The bound at a distance from a date key.
    fn date_bound(
        &mut self,
        own: &Value,
        (months, days, nanoseconds): (i32, i32, i64),
    ) -> Result<Bound, Reason> {
        // DataFusion has no bound if the date does not exist; such frames are left to DataFusion.
        let hours = i128::from(nanoseconds.abs()) / (i128::from(DAY_SECONDS) * 1_000_000_000);
        let reach = 31 * i128::from(months.abs()) + i128::from(days.abs()) + hours + 1;
        let fits = Interval {
            low: VALID_DAYS.low + reach,
            high: VALID_DAYS.high - reach,
        };
        if !own.interval().within(fits) {
            return Err(refuse("its bounds may leave the calendar"));
        }
        let other = self.shifted(own.clone(), &DataType::Date32, (months, days, nanoseconds))?;
        Ok(Bound {
            code: self.define_as("i64", &format!("i64({})", other.code)),
            c_type: "i64",
            beyond: None,
        })
    }
}

/// A bound of a frame by key values.
struct Bound {
    /// The key value of the bound, and the type for comparing keys with it.
    code: String,
    c_type: &'static str,
    /// Condition under which the bound exceeds the key's type, and the partition's bound that replaces it.
    beyond: Option<(String, &'static str)>,
}

fn refuse(detail: &str) -> Reason {
    Reason::Function {
        name: "a RANGE frame".into(),
        detail: detail.into(),
    }
}
