//! A session of one client: a `SessionContext` on the engine of the server, with the tables and limits of its
//! role.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use lru::LruCache;
use metrics::gauge;
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::time::timeout;

use crate::binding;
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::metrics::{REFUSED, SESSIONS};
use crate::opaque::Opaque;
use crate::planning::{self, Context, Frame, Work};
use crate::query::{self, Job, Rows};
use crate::session_statement::{CREATE_MACRO, DROP_MACRO};
use crate::state::{self, Account, Permit, Shared, Ticket};
use crate::statement::{self, Checked, Class};
use crate::tables::{CATALOG, GrantedSchema, SCHEMA};

/// Checked statements that a session remembers.
const CHECKED: NonZeroUsize = NonZeroUsize::new(256).expect("above zero");

/// The longest statement that a session remembers, in bytes.
const LONGEST_CHECKED: usize = 16 << 10;

/// Table functions with the names of all columns and queries of the server.
const SYSTEM_FUNCTIONS: [&str; 2] = ["galatea_memory", "galatea_queries"];

/// A statement that is ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// The statement as the client sent it.
    pub(crate) text: Arc<str>,
    pub(crate) checked: Checked,
    /// The plan; `None` for a statement that is executed when it is planned.
    frame: Option<Frame>,
    /// Whether the columns have other names than those of the statement.
    is_last_resort: bool,
    /// Whether the plan has casts of parameters that the statement does not have ([`Forms::typed`]).
    is_typed: bool,
}

/// The SQL of a statement that a protocol has rewritten. Each form is planned if the one before cannot be.
#[derive(Debug)]
pub(crate) struct Forms {
    pub(crate) sql: String,
    /// With casts of the parameters to the types that the client declared. A decimal of unknown precision
    /// has a cast to [`binding::ANY_DECIMAL`].
    pub(crate) typed: Option<String>,
    /// A query of the catalog that may have another meaning.
    pub(crate) last_resort: Option<String>,
}

/// The prefix of columns that the last resort of a statement renames.
const RENAMED: &str = "__alias_";

impl Prepared {
    /// The columns of the result; `None` if the statement returns no rows, or if they are only known when it
    /// runs.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        let schema = self.plan_schema()?;
        Some(self.shown(schema))
    }

    /// The columns with the names of the statement.
    pub(crate) fn shown(&self, schema: SchemaRef) -> SchemaRef {
        if !self.is_last_resort {
            return schema;
        }
        let fields = schema.fields().iter().map(|field| {
            let name = field.name();
            let name = name.strip_prefix(RENAMED).unwrap_or(name);
            field.as_ref().clone().with_name(name)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn plan_schema(&self) -> Option<SchemaRef> {
        match (&self.frame, self.checked.class) {
            (Some(frame), Class::Query) => Some(Arc::clone(frame.schema().inner())),
            (None, Class::Immediate) if self.checked.tag == "SUMMARIZE" => Some(galatea::summary_schema()),
            _ => None,
        }
    }

    /// The plan with its placeholders.
    pub(crate) fn plan(&self) -> Option<&LogicalPlan> {
        self.frame.as_ref().map(|frame| frame.logical_plan())
    }

    /// The types of the parameters `$1`, `$2`, and so on; `None` for a type that the plan does not determine.
    ///
    /// # Errors
    /// Placeholders that are not numbered from 1 on.
    pub(crate) fn parameters(&self) -> Result<Vec<Option<DataType>>, Failure> {
        match self.plan() {
            Some(plan) => parameters(plan),
            None => Ok(Vec::new()),
        }
    }

    /// The same statement with values for its parameters ([`binding`]).
    ///
    /// # Errors
    /// Another number of values; values that a column or a parameter does not have.
    pub(crate) fn bind(&self, values: Vec<ScalarValue>) -> Result<Self, Failure> {
        let types = self.parameters()?;
        if types.len() != values.len() {
            return Err(Failure::invalid(format!(
                "the statement has {} parameters, and {} values were bound",
                types.len(),
                values.len()
            )));
        }
        let frame = match &self.frame {
            Some(frame) => {
                let (state, plan) = DataFrame::clone(frame).into_parts();
                let plan = match self.is_typed {
                    true => binding::without_any_decimal(plan)?,
                    false => plan,
                };
                let plan = binding::bound(plan, &types, values)?;
                Some(Opaque::new(DataFrame::new(state, plan)))
            }
            None => None,
        };
        Ok(Self {
            frame,
            ..self.clone()
        })
    }
}

impl Prepared {
    /// Checks that the plan can be executed, with any values of its parameters.
    ///
    /// # Errors
    /// Those of planning.
    async fn check_execution(&self) -> Result<(), Failure> {
        let values = self.parameters()?.into_iter().map(|data_type| {
            let data_type = data_type.unwrap_or(DataType::Utf8);
            ScalarValue::new_default(&data_type).or_else(|_| ScalarValue::try_from(&data_type))
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let bound = match values.is_empty() {
            true => self.clone(),
            false => self.bind(values)?,
        };
        match bound.frame {
            Some(frame) => Ok(planning::check(frame).await?),
            None => Ok(()),
        }
    }

    /// The same INSERT of `VALUES` with other rows in place of its parameters.
    ///
    /// # Errors
    /// The statement has no plan with `VALUES`.
    pub(crate) fn with_rows(&self, columns: &SchemaRef, rows: Vec<RecordBatch>) -> PlanResult<Self> {
        let Some(frame) = &self.frame else {
            return internal_err!("a statement without a plan has no VALUES");
        };
        let (state, plan) = DataFrame::clone(frame).into_parts();
        let table: Arc<dyn TableProvider> = Arc::new(MemTable::try_new(Arc::clone(columns), vec![rows])?);
        let places: Vec<usize> = (0..columns.fields().len()).collect();
        let frame = DataFrame::new(state, galatea::with_rows(plan, &table, &places)?);
        Ok(Self {
            frame: Some(Opaque::new(frame)),
            ..self.clone()
        })
    }
}

/// The most parameters of a statement: the limit of the Postgres protocol.
const PARAMETERS: usize = 65_535;

fn parameters(plan: &LogicalPlan) -> Result<Vec<Option<DataType>>, Failure> {
    let types = binding::parameter_types(plan)?;
    let mut numbered = Vec::new();
    for (name, data_type) in types {
        let number = name
            .strip_prefix('$')
            .and_then(|digits| digits.parse::<usize>().ok());
        match number {
            Some(number @ 1..=PARAMETERS) => {
                if numbered.len() < number {
                    numbered.resize(number, None);
                }
                numbered[number - 1] = data_type;
            }
            _ => {
                return Err(Failure::invalid(format!(
                    "parameters are $1, $2, and so on, not {name}"
                )));
            }
        }
    }
    Ok(numbered)
}

/// A session.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) account: Arc<Account>,
    pub(crate) ctx: Context,
    pub(crate) protocol: &'static str,
    _permit: Permit,
    checked: Mutex<LruCache<(String, String), Checked>>,
    running: Arc<Mutex<HashMap<u64, Arc<Ticket>>>>,
    used: Mutex<Instant>,
    /// The limit of time that the client set for its queries.
    timeout: Mutex<Option<Duration>>,
    /// Whether the session has had macros. A macro is a part of each statement that calls it, so a statement
    /// is then checked for each use. The lock keeps macros unchanged between the check and the use.
    macros: RwLock<bool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cancel();
        gauge!(SESSIONS, "protocol" => self.protocol).decrement(1.0);
    }
}

impl Session {
    /// Opens a session.
    ///
    /// # Errors
    /// The account has its maximum number of sessions; the server shuts down; a setting of the server that
    /// sessions do not accept.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        account: &Arc<Account>,
        protocol: &'static str,
    ) -> Result<Self, Failure> {
        if shared.is_stopping() {
            return Err(state::stopping());
        }
        let permit = account.session_permit(shared.config.sessions)?;
        let role = &account.role;
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA);
        let mut builder = galatea::session();
        for (name, value) in &shared.settings {
            let is_device = name == "galatea.device" && value.eq_ignore_ascii_case("emulated");
            if !is_device || role.emulated_device {
                builder = builder.with_setting(name, value);
            }
        }
        let ctx = builder
            .with_config(config)
            .with_runtime(Arc::clone(&account.runtime))
            .with_engine(&shared.engine)
            .with_file_queries(!role.folders.is_empty())
            .with_definition_limit(shared.config.definitions, "limits.definitions")
            .build()?;
        let granted = GrantedSchema {
            tables: Arc::clone(&shared.tables),
            role: Arc::clone(role),
        };
        let catalog = ctx.catalog(CATALOG).ok_or_else(|| {
            Failure::new(
                FailureKind::Query(ErrorKind::Internal),
                "internal error: the session has no catalog",
            )
        })?;
        catalog.register_schema(SCHEMA, Arc::new(granted))?;
        if !role.sees_all() {
            for name in SYSTEM_FUNCTIONS {
                ctx.deregister_udtf(name);
            }
        }
        gauge!(SESSIONS, "protocol" => protocol).increment(1.0);
        Ok(Self {
            shared: Arc::clone(shared),
            account: Arc::clone(account),
            ctx: Opaque::new(ctx),
            protocol,
            _permit: permit,
            checked: Mutex::new(LruCache::new(CHECKED)),
            running: Arc::default(),
            used: Mutex::new(Instant::now()),
            timeout: Mutex::default(),
            macros: RwLock::default(),
        })
    }

    /// The dialect of the session's SQL.
    pub(crate) fn dialect(&self) -> String {
        self.ctx
            .state_ref()
            .read()
            .config_options()
            .sql_parser
            .dialect
            .to_string()
    }

    /// Limits the time of the session's queries, in addition to the limit of its role.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) {
        *self.timeout.lock() = timeout;
    }

    /// The limit of time of a query.
    fn time_limit(&self) -> Option<Duration> {
        let limits = [*self.timeout.lock(), self.account.limits().time];
        limits.into_iter().flatten().min()
    }

    /// Records a use, from which the time until the session ends counts.
    pub(crate) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// The time since the last request; zero while a query runs.
    pub(crate) fn idle(&self) -> Duration {
        match self.running.lock().is_empty() {
            true => self.used.lock().elapsed(),
            false => Duration::ZERO,
        }
    }

    /// Checks and plans a statement. It has no effect before [`run`](Self::run).
    ///
    /// # Errors
    /// Those of parsing, of planning and of missing grants; limits of time and of concurrent queries.
    pub(crate) async fn prepare(self: &Arc<Self>, text: &str) -> Result<Prepared, Failure> {
        let forms = Forms {
            sql: text.to_string(),
            typed: None,
            last_resort: None,
        };
        self.prepare_as(text, forms).await
    }

    /// Like [`prepare`](Self::prepare), for a statement that the protocol has rewritten.
    pub(crate) async fn prepare_as(self: &Arc<Self>, text: &str, forms: Forms) -> Result<Prepared, Failure> {
        self.touch();
        if self.shared.is_stopping() {
            return Err(state::stopping());
        }
        let permit = self.account.query_permit()?;
        let (session, text) = (Arc::clone(self), Arc::from(text));
        let planning = self.shared.queries.spawn(async move {
            let _permit = permit;
            session.plan(text, forms).await
        });
        // The client may leave while the statement is planned.
        let planning = AbortOnDrop(planning);
        let limit = self.time_limit();
        let planned = match limit {
            Some(limit) => timeout(limit, planning).await.map_err(|_| {
                Failure::new(
                    FailureKind::Query(ErrorKind::Time),
                    format!("planning took longer than {limit:?} (limits.time)"),
                )
            })?,
            None => planning.await,
        };
        let prepared = planned.unwrap_or_else(|_| {
            Err(Failure::new(
                FailureKind::Query(ErrorKind::Internal),
                "internal error: planning panicked; this is a bug, please report it",
            ))
        });
        if let Err(failure) = &prepared {
            metrics::counter!(REFUSED, "reason" => "statement").increment(1);
            tracing::info!(
                target: "galatea::query",
                user = self.account.name,
                protocol = self.protocol,
                outcome = "refused",
                error = failure.message,
                "query"
            );
        }
        prepared
    }

    async fn plan(&self, text: Arc<str>, forms: Forms) -> Result<Prepared, Failure> {
        let mut planned = self.plan_sql(Arc::clone(&text), forms.sql).await;
        if let (Err(failure), Some(typed)) = (&planned, forms.typed)
            && failure.kind != FailureKind::Denied
            && let Ok(prepared) = self.plan_sql(Arc::clone(&text), typed).await
        {
            planned = Ok(Prepared {
                is_typed: true,
                ..prepared
            });
        }
        let Some(last_resort) = forms.last_resort else {
            return planned;
        };
        let failure = match planned {
            Ok(prepared) => match prepared.check_execution().await {
                Ok(()) => return Ok(prepared),
                Err(failure) => failure,
            },
            Err(failure) if failure.kind == FailureKind::Denied => return Err(failure),
            Err(failure) => failure,
        };
        // The error of the statement itself is the clearer one.
        let prepared = self.plan_sql(text, last_resort).await.map_err(|_| failure)?;
        Ok(Prepared {
            is_last_resort: true,
            ..prepared
        })
    }

    async fn plan_sql(&self, text: Arc<str>, sql: String) -> Result<Prepared, Failure> {
        let macros = self.macros.read().await;
        let checked = self.check(&sql, *macros).await?;
        let frame = match checked.class {
            Class::Query | Class::Update => Some(planning::sql(&self.ctx, &sql).await?),
            Class::Immediate | Class::Nothing => None,
        };
        Ok(Prepared {
            // A statement without a plan is run by its string.
            text: if frame.is_none() { Arc::from(sql) } else { text },
            checked,
            frame,
            is_last_resort: false,
            is_typed: false,
        })
    }

    /// Checks a statement against the grants, unless that is known. Access to files is checked anew, since
    /// their links may change.
    async fn check(&self, sql: &str, has_macros: bool) -> Result<Checked, Failure> {
        let role = &self.account.role;
        let keeps =
            !has_macros && role.folders.is_empty() && role.copy_to.is_empty() && sql.len() <= LONGEST_CHECKED;
        let key = (self.dialect(), sql.to_string());
        if keeps && let Some(checked) = self.checked.lock().get(&key) {
            return Ok(*checked);
        }
        let checked = statement::check(sql, &self.ctx, role).await?;
        if keeps {
            self.checked.lock().put(key, checked);
        }
        Ok(checked)
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    /// Those of planning and of statements without rows; too many concurrent queries.
    pub(crate) async fn run(self: &Arc<Self>, prepared: &Prepared) -> Result<Rows, Failure> {
        self.touch();
        if prepared.checked.class == Class::Nothing {
            return Ok(Rows::none());
        }
        if matches!(prepared.checked.tag, CREATE_MACRO | DROP_MACRO) {
            let mut macros = self.macros.write().await;
            *macros = true;
            return self.start(prepared).await;
        }
        let macros = self.macros.read().await;
        if *macros && prepared.frame.is_none() && self.check(&prepared.text, true).await? != prepared.checked
        {
            return Err(Failure::invalid(
                "a macro of the statement has changed since the statement was prepared\nhint: prepare it again",
            ));
        }
        self.start(prepared).await
    }

    /// Starts a statement. One without rows has run when this returns.
    async fn start(self: &Arc<Self>, prepared: &Prepared) -> Result<Rows, Failure> {
        let work = match &prepared.frame {
            Some(frame) => Work::Frame(frame.clone()),
            None => Work::Statement(prepared.text.to_string()),
        };
        let job = Job {
            ctx: self.ctx.clone(),
            account: Arc::clone(&self.account),
            protocol: self.protocol,
            work,
            statement: Arc::clone(&prepared.text),
            time: self.time_limit(),
            permit: self.account.query_permit()?,
        };
        let (running, own) = (Arc::clone(&self.running), Arc::clone(&self.running));
        query::start(
            &self.shared,
            job,
            |ticket| {
                running.lock().insert(ticket.number, Arc::clone(ticket));
            },
            move |ticket| {
                own.lock().remove(&ticket.number);
            },
        )
        .await
    }

    /// Cancels the session's running queries. Returns whether one was running.
    pub(crate) fn cancel(&self) -> bool {
        let running = self.running.lock();
        for ticket in running.values() {
            ticket.stop(cancelled());
        }
        !running.is_empty()
    }
}

/// The error of a cancelled query.
pub(crate) fn cancelled() -> Failure {
    Failure::new(
        FailureKind::Query(ErrorKind::Cancelled),
        "the query was cancelled on request",
    )
}

/// A task that ends when it is dropped.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
