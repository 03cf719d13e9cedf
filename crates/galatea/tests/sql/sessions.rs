//! What a session may do, and what it says of itself.

use galatea::EmulatorOptions;

/// Whoever may send SQL cannot have the process compile and load code.
#[tokio::test]
async fn sql_alone_does_not_get_the_emulated_device() {
    let ctx = galatea::session().build().expect("a session");
    let sql = "SELECT value % 3 AS k, count(*) FROM generate_series(1, 100) GROUP BY 1";
    let run = |ctx: datafusion::prelude::SessionContext| async move { ctx.sql(sql).await?.collect().await };
    ctx.sql("SET galatea.device = 'emulated'").await.expect("a value");
    let refused = run(ctx.clone()).await.expect_err("not allowed").to_string();
    assert!(refused.contains("SessionBuilder::with_emulated_device"), "{refused}");
    assert!(refused.contains("--set galatea.device=emulated"), "{refused}");
    let calibrated = galatea::calibrate(&ctx).expect_err("not allowed").to_string();
    assert!(calibrated.contains("with_emulated_device"), "{calibrated}");
    ctx.sql("SET galatea.device = 'auto'").await.expect("a value");
    run(ctx).await.expect("on the CPU");

    let allowed = galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .build()
        .expect("a session");
    allowed
        .sql("SET galatea.device = 'emulated'")
        .await
        .expect("a value");
    run(allowed.clone()).await.expect("on the emulated device");
    let report = galatea::last_query_report(&allowed).expect("a report");
    assert_eq!(report.device, galatea::QueryDevice::Emulated, "{:?}", report.reasons);
}
