-- funnel: users who viewed, then put something into the cart, then bought.
WITH viewed AS (SELECT user_id, min(ts) AS ts FROM events WHERE kind = 'view' GROUP BY user_id),
carted AS (
    SELECT events.user_id, min(events.ts) AS ts
    FROM viewed JOIN events ON events.user_id = viewed.user_id
    WHERE events.kind = 'cart' AND events.ts > viewed.ts AND events.ts <= viewed.ts + INTERVAL '7 days'
    GROUP BY events.user_id
),
bought AS (
    SELECT events.user_id, min(events.ts) AS ts
    FROM carted JOIN events ON events.user_id = carted.user_id
    WHERE events.kind = 'purchase' AND events.ts > carted.ts AND events.ts <= carted.ts + INTERVAL '1 day'
    GROUP BY events.user_id
)
SELECT
    (SELECT count(*) FROM viewed) AS viewed,
    (SELECT count(*) FROM carted) AS carted,
    (SELECT count(*) FROM bought) AS bought;

-- sessions: sessions end after thirty minutes without an event.
WITH marked AS (
    SELECT country, user_id, ts,
        CASE WHEN ts <= lag(ts) OVER (PARTITION BY country, user_id ORDER BY ts) + INTERVAL '30 minutes' THEN 0 ELSE 1 END AS begins
    FROM events
),
numbered AS (
    SELECT country, user_id, ts,
        sum(begins) OVER (PARTITION BY country, user_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS session
    FROM marked
),
sessions AS (
    SELECT country, user_id, session, count(*) AS events, date_part('epoch', max(ts)) - date_part('epoch', min(ts)) AS seconds
    FROM numbered GROUP BY country, user_id, session
)
SELECT country, count(*) AS sessions, avg(events) AS events, avg(seconds) AS seconds
FROM sessions GROUP BY country ORDER BY country;

-- cohorts: users who return, by the week of their first event.
WITH firsts AS (SELECT user_id, date_trunc('week', min(ts)) AS cohort FROM events GROUP BY user_id)
SELECT cohort, date_trunc('week', events.ts) AS week, count(DISTINCT events.user_id) AS users
FROM events JOIN firsts ON events.user_id = firsts.user_id
GROUP BY cohort, date_trunc('week', events.ts)
ORDER BY cohort, week;

-- versions: purchases with the version of the price that was valid.
SELECT events.country, count(*) AS purchases, sum(prices.price) AS list_price, sum(events.amount) AS amount
FROM events JOIN prices ON events.product_id = prices.product_id
    AND events.ts >= prices.valid_from AND events.ts < prices.valid_to
WHERE events.kind = 'purchase'
GROUP BY events.country ORDER BY events.country;

-- top: three best customers of each country.
SELECT country, place, user_id, amount
FROM (
    SELECT country, user_id, amount, row_number() OVER (PARTITION BY country ORDER BY amount DESC, user_id) AS place
    FROM (
        SELECT country, user_id, sum(amount) AS amount
        FROM events WHERE kind = 'purchase' GROUP BY country, user_id
    ) AS customers
) AS placed
WHERE place <= 3 ORDER BY country, place;

-- baskets: products that users buy on the same day.
WITH bought AS (
    SELECT DISTINCT user_id, date_trunc('day', ts) AS day, product_id FROM events WHERE kind = 'purchase'
)
SELECT one.product_id AS one, other.product_id AS other, count(*) AS together
FROM bought AS one JOIN bought AS other ON one.user_id = other.user_id AND one.day = other.day
WHERE one.product_id < other.product_id
GROUP BY one.product_id, other.product_id
ORDER BY together DESC, one, other LIMIT 20;

-- streaks: users by their longest sequence of consecutive days.
WITH days AS (
    SELECT DISTINCT user_id, CAST(floor(date_part('epoch', ts) / 86400) AS BIGINT) AS day FROM events
),
numbered AS (
    SELECT user_id, day - row_number() OVER (PARTITION BY user_id ORDER BY day) AS island FROM days
),
streaks AS (SELECT user_id, island, count(*) AS days FROM numbered GROUP BY user_id, island),
longest AS (SELECT user_id, max(days) AS days FROM streaks GROUP BY user_id)
SELECT days, count(*) AS users FROM longest GROUP BY days ORDER BY days;

-- as-of: purchases with the last price before them.
WITH since AS (
    SELECT events.event_id, events.product_id, events.amount, max(prices.valid_from) AS valid_from
    FROM events JOIN prices ON prices.product_id = events.product_id AND prices.valid_from <= events.ts
    WHERE events.kind = 'purchase'
    GROUP BY events.event_id, events.product_id, events.amount
)
SELECT count(*) AS purchases, sum(since.amount - prices.price) AS difference
FROM since JOIN prices ON prices.product_id = since.product_id AND prices.valid_from = since.valid_from;

-- percentiles: range of each tenth of a country's purchases, and the median.
SELECT country, tenth, count(*) AS purchases, min(amount) AS least, max(amount) AS most, median(amount) AS middle
FROM (
    SELECT country, amount, ntile(10) OVER (PARTITION BY country ORDER BY amount, event_id) AS tenth
    FROM events WHERE kind = 'purchase'
) AS placed
GROUP BY country, tenth ORDER BY country, tenth;

-- duplicates: events without those that were delivered again.
SELECT kind, count(*) AS events, sum(amount) AS amount
FROM (
    SELECT kind, amount, row_number() OVER (PARTITION BY user_id, ts, kind, product_id ORDER BY event_id) AS delivery
    FROM events
) AS delivered
WHERE delivery = 1 GROUP BY kind ORDER BY kind;
