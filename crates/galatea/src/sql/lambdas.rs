//! Lambdas: `list_transform(l, x -> x + 1)`, `list_transform(l, lambda x: x + 1)`, and `[x + 1 for x in l if
//! x > 2]`.
//!
//! The parser reads `x -> x + 1` as `(x -> x) + 1` in most dialects, because `->` is an operator of JSON. So
//! the bodies of lambdas in calls of functions that have them get parentheses, and [`in_calls`] replaces the
//! operator by a lambda:
//!
//! | form | tokens |
//! | --- | --- |
//! | `x -> x + 1`, `lambda x: x + 1` | `x -> (x + 1)` |
//! | `lambda x, y: x + y` | `(x, y) -> (x + y)` |
//! | `[x + 1 for x in l if x > 2]` | `array_transform(array_filter(l, x -> (x > 2)), x -> (x + 1))` |

use super::ast_parts::{call, key, taken, text, unquoted_name};
use super::tokens::{Tokens, at, closing, find, is_blank, is_empty, significant, split};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LambdaFunction, LambdaFunctionParameter, LambdaSyntax, ObjectName, OneOrManyWithParens, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use galatea_engine::syntax::{self, visit_expressions_mut};
use std::mem;
use std::ops::ControlFlow;

/// DuckDB's names of functions with lambdas, and DataFusion's.
const RENAMED: [(&str, &str); 6] = [
    ("apply", "array_transform"),
    ("array_apply", "array_transform"),
    ("list_apply", "array_transform"),
    ("list_filter", "array_filter"),
    ("filter", "array_filter"),
    ("reduce", "list_reduce"),
];

const TRANSFORM: &str = "array_transform";
const FILTER: &str = "array_filter";

/// The names that DuckDB has for other functions.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    RENAMED.iter().map(|(name, _)| *name)
}

/// The lower-case name of a function of the session that has lambdas.
fn function(name: &str, state: &SessionState) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let functions = state.higher_order_functions();
    if functions.contains_key(&name) {
        return Some(name);
    }
    let (_, renamed) = RENAMED.iter().find(|(known, _)| *known == name)?;
    functions.contains_key(*renamed).then(|| (*renamed).to_owned())
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The tokens with parentheses around the bodies of lambdas, and with calls instead of list comprehensions.
pub(super) fn marked(tokens: Tokens, state: &SessionState) -> Tokens {
    let is_mark = |token: &TokenWithSpan| {
        token.token == Token::Arrow || is_word(token, "lambda") || is_word(token, "for")
    };
    match tokens.iter().any(is_mark) {
        true => Lambdas { state }.marked(&tokens),
        false => tokens,
    }
}

struct Lambdas<'s> {
    state: &'s SessionState,
}

impl Lambdas<'_> {
    fn marked(&self, tokens: &[TokenWithSpan]) -> Tokens {
        let mut written = Tokens::with_capacity(tokens.len());
        let mut rest = tokens;
        while let Some((token, after)) = rest.split_first() {
            match &token.token {
                Token::Word(word) if word.quote_style.is_none() => {
                    written.push(token.clone());
                    rest = after;
                    if function(&word.value, self.state).is_some()
                        && let Some(open) =
                            significant(after).filter(|&open| after[open].token == Token::LParen)
                        && let Some(end) = closing(&after[open..]).map(|end| open + end)
                    {
                        written.extend_from_slice(&after[..=open]);
                        written.extend(self.arguments(&after[open + 1..end]));
                        rest = &after[end..];
                    }
                }
                Token::LBracket => {
                    let end = find(after, |token| token.token == Token::RBracket);
                    match end.and_then(|end| Some((end, self.comprehension(&after[..end], token.span)?))) {
                        Some((end, call)) => {
                            written.extend(call);
                            rest = &after[end + 1..];
                        }
                        None => {
                            written.push(token.clone());
                            rest = after;
                        }
                    }
                }
                _ => {
                    written.push(token.clone());
                    rest = after;
                }
            }
        }
        written
    }

    /// The arguments of a call. The first one is a list, in which `->` is an operator of JSON.
    fn arguments(&self, tokens: &[TokenWithSpan]) -> Tokens {
        let mut written = Tokens::new();
        let mut rest = tokens;
        for number in 0.. {
            let is_lambda =
                number > 0 && significant(rest).is_some_and(|first| is_word(&rest[first], "lambda"));
            // The parameters after the word are separated by commas.
            let parameters = match is_lambda {
                true => find(rest, |token| token.token == Token::Colon).unwrap_or(0),
                false => 0,
            };
            let comma = find(&rest[parameters..], |token| token.token == Token::Comma);
            let end = comma.map_or(rest.len(), |comma| parameters + comma);
            let argument = &rest[..end];
            match lambda(argument).filter(|_| number > 0) {
                Some((parameters, body)) => written.extend(self.lambda(parameters, body)),
                None => written.extend(self.marked(argument)),
            }
            if comma.is_none() {
                break;
            }
            written.push(rest[end].clone());
            rest = &rest[end + 1..];
        }
        written
    }

    /// A lambda with parentheses around its body.
    fn lambda(&self, parameters: &[TokenWithSpan], body: &[TokenWithSpan]) -> Tokens {
        let span = body.first().map_or_else(Span::empty, |token| token.span);
        let names = split(parameters, |token| token.token == Token::Comma);
        let mut written = Tokens::new();
        match names.len() {
            1 => written.extend_from_slice(parameters),
            _ => {
                written.extend(at(span, [Token::LParen]));
                written.extend_from_slice(parameters);
                written.extend(at(span, [Token::RParen]));
            }
        }
        written.extend(at(span, [Token::Arrow, Token::LParen]));
        written.extend(self.marked(body));
        written.extend(at(span, [Token::RParen]));
        written
    }

    /// The call of `x + 1 for x in l if x > 2`.
    fn comprehension(&self, tokens: &[TokenWithSpan], span: Span) -> Option<Tokens> {
        let from = find(tokens, |token| is_word(token, "for"))?;
        let (value, rest) = (&tokens[..from], &tokens[from + 1..]);
        let within = find(rest, |token| is_word(token, "in"))?;
        let (names, rest) = (&rest[..within], &rest[within + 1..]);
        let condition = find(rest, |token| is_word(token, "if"));
        let list = &rest[..condition.unwrap_or(rest.len())];
        if is_empty(value) || is_empty(names) || is_empty(list) {
            return None;
        }
        let comma = || at(span, [Token::Comma]);
        let mut source = self.marked(list);
        if let Some(condition) = condition {
            let mut filtered = at(span, [Token::make_word(FILTER, None), Token::LParen]);
            filtered.extend(source);
            filtered.extend(comma());
            filtered.extend(self.lambda(names, &rest[condition + 1..]));
            filtered.extend(at(span, [Token::RParen]));
            source = filtered;
        }
        let mut call = at(span, [Token::make_word(TRANSFORM, None), Token::LParen]);
        call.extend(source);
        call.extend(comma());
        call.extend(self.lambda(names, value));
        call.extend(at(span, [Token::RParen]));
        Some(call)
    }
}

/// The parameters and the body of an argument that is a lambda.
fn lambda(argument: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], &[TokenWithSpan])> {
    let first = significant(argument)?;
    let argument = &argument[first..];
    if is_word(&argument[0], "lambda") {
        let colon = find(argument, |token| token.token == Token::Colon)?;
        let parameters = &argument[1..colon];
        return Some((without_parentheses(parameters), &argument[colon + 1..]));
    }
    let arrow = find(argument, |token| token.token == Token::Arrow)?;
    let parameters = without_parentheses(&argument[..arrow]);
    let names = split(parameters, |token| token.token == Token::Comma);
    let is_name = |name: &&[TokenWithSpan]| {
        let mut words = name.iter().filter(|token| !is_blank(token));
        matches!(words.next().map(|token| &token.token), Some(Token::Word(_))) && words.next().is_none()
    };
    names
        .iter()
        .all(is_name)
        .then_some((parameters, &argument[arrow + 1..]))
}

fn without_parentheses(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let inside = significant(tokens).and_then(|first| {
        let open = tokens[first].token == Token::LParen;
        let end = first + closing(&tokens[first..]).filter(|_| open)?;
        is_empty(&tokens[end + 1..]).then(|| &tokens[first + 1..end])
    });
    inside.unwrap_or(tokens)
}

/// Replaces the marked lambdas in the calls of a statement.
pub(super) fn in_calls(statement: &mut Statement, state: &SessionState) -> Result<(), DataFusionError> {
    super::visit_mut(statement, &mut Calls { state })
}

struct Calls<'s> {
    state: &'s SessionState,
}

impl VisitorMut for Calls<'_> {
    type Break = DataFusionError;

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        if let Expr::Function(call) = expression {
            self.replace(call);
        }
        ControlFlow::Continue(())
    }
}

impl Calls<'_> {
    fn replace(&self, call: &mut Function) {
        let Some(name) = unquoted_name(call).and_then(|name| function(&name, self.state)) else {
            return;
        };
        let FunctionArguments::List(list) = &mut call.args else {
            return;
        };
        let mut is_called = false;
        for argument in list.args.iter_mut().skip(1) {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                is_called |= as_lambda(argument);
            }
        }
        // Other functions may have the names of DuckDB's.
        if is_called
            && !self
                .state
                .higher_order_functions()
                .contains_key(&call.name.to_string())
        {
            call.name = ObjectName::from(vec![Ident::new(name)]);
        }
    }
}

/// Replaces `x -> (body)` by a lambda, and returns whether it is one.
fn as_lambda(argument: &mut Expr) -> bool {
    let (parameters, body) = match argument {
        Expr::Lambda(lambda) => {
            if let Expr::Nested(body) = lambda.body.as_mut() {
                *lambda.body = taken(body);
            }
            return true;
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Arrow,
            right,
        } => match right.as_mut() {
            Expr::Nested(body) => (left, body),
            _ => return false,
        },
        _ => return false,
    };
    let Some(names) = parameter_names(parameters) else {
        return false;
    };
    in_body(body, &names);
    let mut parameters: Vec<_> = names
        .into_iter()
        .map(|name| LambdaFunctionParameter {
            name,
            data_type: None,
        })
        .collect();
    let params = match parameters.len() {
        1 => OneOrManyWithParens::One(parameters.remove(0)),
        _ => OneOrManyWithParens::Many(parameters),
    };
    *argument = Expr::Lambda(LambdaFunction {
        params,
        body: Box::new(taken(body)),
        syntax: LambdaSyntax::Arrow,
    });
    true
}

/// The planner reads `x` in `[x, x]` and `x.a` as columns: a call of a function replaces them.
fn in_body(body: &mut Expr, names: &[Ident]) {
    let is_parameter = |name: &Ident| names.iter().any(|known| key(known) == key(name));
    let _ = visit_expressions_mut(body, |part| {
        match part {
            Expr::Array(array) => *part = call("make_array", mem::take(&mut array.elem)),
            Expr::CompoundIdentifier(parts) if parts.first().is_some_and(is_parameter) => {
                let mut arguments = vec![Expr::Identifier(parts[0].clone())];
                arguments.extend(parts[1..].iter().map(|field| text(&field.value)));
                *part = call("get_field", arguments);
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Gives the parameters of the lambdas of a macro names that no argument of a call has.
pub(super) fn distinguish(statement: &mut ast::Statement) {
    let _ = syntax::visit_mut(statement, &mut Parameters);
}

struct Parameters;

impl VisitorMut for Parameters {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Lambda(lambda) = expression else {
            return ControlFlow::Continue(());
        };
        let parameters = match &mut lambda.params {
            OneOrManyWithParens::One(parameter) => std::slice::from_mut(parameter),
            OneOrManyWithParens::Many(parameters) => parameters.as_mut_slice(),
        };
        for parameter in parameters {
            let old = key(&parameter.name);
            parameter.name = Ident::with_quote('"', format!("__lambda_{old}"));
            let _ = visit_expressions_mut(lambda.body.as_mut(), |part| {
                if let Expr::Identifier(name) = part
                    && key(name) == old
                {
                    *name = parameter.name.clone();
                }
                ControlFlow::<()>::Continue(())
            });
        }
        ControlFlow::Continue(())
    }
}

/// The names of parameters.
fn parameter_names(parameters: &Expr) -> Option<Vec<Ident>> {
    let name = |expression: &Expr| match expression {
        Expr::Identifier(name) => Some(name.clone()),
        _ => None,
    };
    match parameters {
        Expr::Tuple(parameters) => parameters.iter().map(name).collect(),
        Expr::Nested(parameter) => Some(vec![name(parameter)?]),
        parameter => Some(vec![name(parameter)?]),
    }
}
