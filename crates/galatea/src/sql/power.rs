//! `a ^ b` as in PostgreSQL and DuckDB: a to the power of b.
//!
//! DataFusion reads it as the bitwise exclusive or, and its parser gives it a lower precedence than `+` and
//! `*`; `^` must have a higher one than both. So both operands of `^`, which contain all operators that the
//! parser considers of higher precedence, are taken apart and reassembled.

use super::ast_parts::call_of;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
};

/// The precedence of an operator that the parser evaluates before `^`; `None` for one that it evaluates
/// after.
fn binding(operator: &BinaryOperator) -> Option<u8> {
    Some(match operator {
        BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::StringConcat
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::MyIntegerDivide => 40,
        BinaryOperator::Plus | BinaryOperator::Minus => 30,
        BinaryOperator::Xor => 24,
        BinaryOperator::BitwiseAnd => 23,
        BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight
        | BinaryOperator::PGBitwiseXor => 22,
        _ => return None,
    })
}

/// Operands, and the operators between them, which are one fewer.
#[derive(Default)]
struct Chain {
    operands: Vec<Expr>,
    operators: Vec<BinaryOperator>,
}

impl Chain {
    /// The operands of an expression without parentheses around them, from left to right.
    fn of(expression: Expr) -> Self {
        #[expect(clippy::large_enum_variant, reason = "a few live at a time")]
        enum Part {
            Expression(Expr),
            Operator(BinaryOperator),
        }
        let mut chain = Self::default();
        let mut parts = vec![Part::Expression(expression)];
        while let Some(part) = parts.pop() {
            match part {
                Part::Expression(Expr::BinaryOp { left, op, right }) if binding(&op).is_some() => {
                    parts.push(Part::Expression(*right));
                    parts.push(Part::Operator(op));
                    parts.push(Part::Expression(*left));
                }
                Part::Expression(operand) => chain.operands.push(operand),
                Part::Operator(operator) => chain.operators.push(operator),
            }
        }
        chain
    }

    /// Builds one expression from the operands, by the precedence of the operators; equal ones from left to
    /// right.
    fn joined(self) -> Option<Expr> {
        let mut operands = self.operands.into_iter();
        let mut done = vec![operands.next()?];
        let mut waiting: Vec<BinaryOperator> = Vec::new();
        for (operator, operand) in self.operators.into_iter().zip(operands) {
            while waiting
                .last()
                .is_some_and(|last| binding(last) >= binding(&operator))
            {
                reduce(&mut done, &mut waiting)?;
            }
            waiting.push(operator);
            done.push(operand);
        }
        while !waiting.is_empty() {
            reduce(&mut done, &mut waiting)?;
        }
        done.pop()
    }
}

/// Applies the last operator to the last two operands.
fn reduce(done: &mut Vec<Expr>, waiting: &mut Vec<BinaryOperator>) -> Option<()> {
    let (op, right, left) = (waiting.pop()?, done.pop()?, done.pop()?);
    done.push(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    });
    Some(())
}

/// The expression of `left ^ right`, given both sides as the parser has read them.
pub(super) fn power(left: Expr, right: Expr) -> Option<Expr> {
    let (mut left, right) = (Chain::of(left), Chain::of(right));
    let mut following = right.operands.into_iter();
    let (base, exponent) = (left.operands.pop()?, following.next()?);
    left.operands
        .push(call_of(Ident::new("power"), vec![base, exponent]));
    left.operands.extend(following);
    left.operators.extend(right.operators);
    left.joined()
}

/// `xor(a, b)` as the bitwise operator; `None` for other calls.
pub(super) fn exclusive_or(function: &Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else {
        return None;
    };
    let is_xor = name
        .as_ident()
        .is_some_and(|name| name.value.eq_ignore_ascii_case("xor"));
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let plain = list.clauses.is_empty() && list.duplicate_treatment.is_none() && function.over.is_none();
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let nested = |expression: &Expr| Box::new(Expr::Nested(Box::new(expression.clone())));
    (is_xor && plain).then(|| {
        Expr::Nested(Box::new(Expr::BinaryOp {
            left: nested(left),
            op: BinaryOperator::Xor,
            right: nested(right),
        }))
    })
}
