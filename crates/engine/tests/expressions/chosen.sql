-- TPC-H
price * (1 - discount)
price * (1 - discount) * (1 + discount)
price * discount
discount BETWEEN 0.05 AND 0.07
day >= DATE '1994-01-01' AND day < DATE '1994-01-01' + INTERVAL '1' YEAR AND discount BETWEEN 0.05 AND 0.07 AND price < 24000
day <= DATE '1998-12-01' - INTERVAL '90' DAY
CASE WHEN word LIKE 'a%' THEN price * (1 - discount) ELSE 0 END
CASE WHEN word = 'apple' OR word = 'banana' THEN 1 ELSE 0 END
extract(year from day)
substr(word, 1, 2)
substr(note, 1, 2) IN ('a', 'ap', 'ba', 'Zü')
word NOT LIKE '%an%'
note NOT LIKE '%an%na%'
word = city
word < city
note = word
note <> memo
note < memo
memo >= city
-- ClickBench
length(note)
octet_length(memo)
date_trunc('minute', moment)
date_trunc('month', moment)
extract(minute from moment)
CASE WHEN small = 0 AND tiny = 0 THEN word ELSE '' END
note <> ''
note LIKE '%a%' AND city NOT LIKE '%.google.%'
short + 89
short - 3 > 5
CAST(moment AS DATE)
-- NULL and logic
flag AND certain
flag OR NOT certain
NOT flag
flag IS NOT TRUE
flag IS DISTINCT FROM certain
number IS NOT DISTINCT FROM big
COALESCE(word, city, 'none')
COALESCE(word, '') = ''
upper(COALESCE(word, 'none'))
word IS NULL
word IS NULL OR word LIKE '%a%'
NULLIF(small, 0)
COALESCE(number, big, 0)
GREATEST(number, small)
-- errors, guarded and not
big / small
big % small
CASE WHEN small <> 0 THEN big / small ELSE -1 END
small = 0 OR big / small > 3
small <> 0 AND big % small = 1
number / tiny
abs(number)
abs(tiny)
CAST(big AS INT)
TRY_CAST(big AS INT)
CAST(real AS INT)
TRY_CAST(real AS BIGINT)
TRY_CAST(single AS TINYINT)
CAST(huge AS BIGINT)
CAST(word AS INT)
TRY_CAST(word AS INT)
TRY_CAST(city AS INT) + 1
TRY_CAST(word AS DATE)
vast * vast
vast + vast
vast - 1
-vast
CAST(vast AS DECIMAL(20, 2))
TRY_CAST(vast AS DECIMAL(20, 2))
CAST(rate AS DECIMAL(5, 0))
TRY_CAST(rate AS DECIMAL(5, 0))
CAST(rate AS DECIMAL(10, 2))
CAST(real AS DECIMAL(15, 2))
TRY_CAST(real AS DECIMAL(15, 2))
TRY_CAST(real AS DECIMAL(38, 10))
price / discount
rate % discount
rate / 7
CAST(vast AS BIGINT)
TRY_CAST(vast AS INT)
-- wrapping
number + number
number * number
big * big
big - 1
tiny * tiny
short * short
byte + byte
huge * huge
huge - natural
-big
-tiny
natural * natural
natural - 1
big & small
big | number
big << 3
big >> 60
tiny << 3
byte >> 1
-- floats
real + single
real * 1.5
real / real
real % 3
single * single
single < real
real = 0
real = -real
real BETWEEN -1 AND 1
real IN (0, 1, 0.5)
real IS DISTINCT FROM single
sqrt(real)
ceil(real)
floor(single)
CAST(real AS REAL)
CAST(single AS DOUBLE)
CAST(big AS REAL)
CAST(huge AS DOUBLE)
CAST(vast AS DOUBLE)
CAST(rate AS REAL)
CASE real WHEN 0 THEN 1 WHEN 1 THEN 2 ELSE 3 END
signum(real)
isnan(real)
-- dates
arrow_cast(day, 'Date64')
CAST(arrow_cast(day, 'Date64') AS DATE)
arrow_typeof(day)
day + INTERVAL '1 month'
day - INTERVAL '13 months'
day - DATE '1995-06-17'
date_part('week', day)
date_part('isoyear', day)
date_part('doy', day)
date_part('dow', day)
date_part('quarter', moment)
date_part('second', moment)
date_part('millisecond', moment)
date_part('microsecond', moment)
date_part('nanosecond', moment)
date_part('epoch', moment)
date_part('epoch', instant)
date_part('epoch', day)
date_part('hour', instant)
date_trunc('week', instant)
date_trunc('year', instant)
date_trunc('quarter', moment)
date_trunc('day', moment)
moment + INTERVAL '1 month'
instant - INTERVAL '1 month 2 days 3 seconds'
instant + INTERVAL '1 microsecond'
CAST(day AS TIMESTAMP)
CAST(instant AS TIMESTAMP)
CAST(CAST(moment AS TIMESTAMP(0)) AS DATE)
moment = instant
-- strings
upper(word)
upper(word) = 'APPLE'
replace(upper(word), 'A', 'b')
length(upper(word)) + 1
regexp_like(word, '^a.*e$')
word || '!'
word || '!' = 'apple!'
starts_with(note, 'ap')
ends_with(note, 'e')
contains(note, 'ü')
note LIKE 'Z_rich'
note LIKE '_本%'
note LIKE '100\%'
note LIKE 'under\_%'
note LIKE '%n_n%'
memo IN ('apple', 'banana', 'Zürich', 'x')
character_length(note)
substr(note, 2)
substr(note, -1, 3)
substr(note, 2, 2) = 'pp'
word ILIKE 'ZÜRICH'
CASE word WHEN 'apple' THEN 1 WHEN 'banana' THEN 2 END
CASE WHEN certain THEN word ELSE city END
CASE WHEN certain THEN note ELSE memo END
upper(CASE WHEN certain THEN word ELSE city END)
strpos(word, 'a')
number IN (1, 2, 10, -1, 7, -7)
big IN (1, 2, 10, -1, 7, 9223372036854775807, -9223372036854775808, 12345)
number NOT IN (1, 2, NULL)
round(real)
round(real, 2)
round(single, 1)
round(real, -2)
-- functions of doubles
exp(real)
ln(real)
log2(real)
log10(real)
sin(real)
cos(real)
tan(real)
asin(real)
acos(real)
atan(real)
sinh(real)
cosh(real)
tanh(real)
atan2(real, single)
atan2(real, real * 2)
power(real, 2)
power(real, 0.5)
power(real, real)
degrees(real)
radians(real)
trunc(real)
trunc(single)
trunc(real, 2)
trunc(real, -3)
trunc(single, 1)
trunc(real, 0)
trunc(single, 400)
acosh(real)
acosh(abs(real))
acosh(1.0 + abs(real))
asinh(real)
asinh(real * 1e-300)
asinh(real * real)
atanh(real)
atanh(sin(real))
cbrt(real)
cbrt(real * real * real)
cbrt(real * 1e-300)
cbrt(CAST(number AS DOUBLE))
-- whole numbers
ceil(price)
floor(price)
ceil(rate)
floor(discount)
ceil(vast)
floor(vast)
ceil(CAST(small AS DECIMAL(38, 0)))
floor(CAST(tiny AS DECIMAL(9, 9)))
ceil(CAST(0.5 AS DECIMAL(9, 9)) * small)
trunc(price, 1)
trunc(price)
trunc(rate, -2)
trunc(vast, 3)
trunc(vast, -30)
trunc(price, 60)
round(price)
round(price, 1)
round(rate, -1)
round(rate, 3)
round(vast, 4)
round(vast, -20)
round(vast, -29)
round(CAST(number AS DECIMAL(38, 0)), -2)
round(CAST(small AS DECIMAL(1, 0)), -1)
round(CAST(vast AS DECIMAL(38, 0)), -3)
round(number)
round(number, 3)
round(number, -3)
round(number, -9)
round(number, -10)
round(tiny, -2)
round(tiny, -1)
round(byte, -2)
round(huge, -5)
round(big, -18)
round(short, -4)
gcd(small, short)
gcd(big, small)
gcd(big, 12)
gcd(big, big)
gcd(number, number + 7)
lcm(small, short)
lcm(number, small)
lcm(big, small)
lcm(small, 0)
factorial(abs(small))
factorial(small)
factorial(small + 13)
-- of year, month and day
make_date(2000 + small, abs(small) + 1, byte % 28 + 1)
make_date(number, 2, 28)
make_date(number % 262143, 12, 31)
make_date(short, abs(small) + 4, 31)
make_date(2000 + tiny, 2, 29)
make_date(2001, 1, byte)
make_time(byte % 24, abs(tiny) % 60, abs(small))
make_time(byte, 1, 2)
make_time(1, 2, small)
make_time(small + 20, 0, 0)
to_local_time(moment)
to_local_time(instant)
moment - arrow_cast(instant, 'Timestamp(Microsecond, None)')
moment - moment
instant - TIMESTAMP '2001-02-03 04:05:06'
iszero(real)
iszero(single)
nanvl(real, 1.5)
nanvl(real, single)
nanvl(real, real + 1)
-- conversions of points in time
to_date(moment)
to_date(day)
from_unixtime(small)
to_unixtime(moment)
to_unixtime(day)
to_unixtime(big)
to_timestamp(small)
to_timestamp(big)
to_timestamp(moment)
to_timestamp_seconds(moment)
to_timestamp_seconds(big)
to_timestamp_millis(moment)
to_timestamp_millis(small)
to_timestamp_micros(instant)
to_timestamp_nanos(moment)
date_bin(INTERVAL '1 month', moment)
date_bin(INTERVAL '3 months', instant)
date_bin(INTERVAL '1 year', moment, TIMESTAMP '2001-02-28 13:14:15')
date_bin(INTERVAL '7 months', moment, TIMESTAMP '2040-12-31 00:00:01')
date_bin(INTERVAL '2 months', instant, TIMESTAMP '1970-01-31 23:59:59')
date_bin(INTERVAL '15 minutes', moment)
date_bin(INTERVAL '1 hour', instant)
date_bin(INTERVAL '1 week', moment, TIMESTAMP '2001-01-01 02:30:00')
date_bin(INTERVAL '7 seconds', instant, TIMESTAMP '1960-01-01')
-- a string without a dictionary
left(note, 3)
left(word, 2) = 'ap'
strpos(note, 'an')
strpos(memo, '')
strpos(note, word)
ascii(note)
ascii(memo)
btrim(note)
length(btrim(memo))
ltrim(note) = 'apple'
rtrim(memo)
note LIKE word
memo NOT LIKE city
greatest(word, city)
greatest(real, single)
least(real, real * -1, 0.0)
greatest(single, CAST(-0.0 AS REAL))
least(note, memo, 'm')
greatest(word, 'banana')
left(note, small)
left(memo, -2)
left(note, -300)
right(note, 3)
right(memo, 0)
right(memo, -1)
right(note, small)
right(note, number)
substr(memo, small)
substr(note, number)
substr(memo, 2)
length(right(note, 2)) + length(left(memo, 1))
split_part(note, 'a', 1)
split_part(note, 'a', 2)
split_part(memo, 'an', 3)
split_part(memo, 'an', -1)
split_part(note, 'n', -2)
split_part(note, 'ü', 2)
split_part(note, 'zz', -1)
split_part(note, 'zz', 2)
bit_length(note)
-- texts that are made of others, and of numbers
note || memo
word || city
note || '-' || memo || '-' || city
note || small
concat(note, ', ', memo)
concat(word, note, memo)
concat_ws('-', note, word, memo)
concat_ws('-', word, city)
concat_ws(word, note, memo)
upper(note)
lower(memo)
upper(note || memo)
lower(note || word)
upper(word || city)
repeat(note, 2)
repeat(note, small)
repeat(note || memo, 2)
to_hex(small)
to_hex(big)
to_hex(number)
CAST(small AS VARCHAR)
CAST(big AS VARCHAR)
CAST(number AS VARCHAR)
CAST(price AS VARCHAR)
CAST(vast AS VARCHAR)
CAST(huge AS VARCHAR)
CAST(flag AS VARCHAR)
CAST(day AS VARCHAR)
CAST(moment AS VARCHAR)
CAST(instant AS VARCHAR)
CAST(small > 0 AS VARCHAR)
small || '/' || day || '/' || (small > 3)
note || memo = memo || note
note || memo < memo || city
upper(note) = 'APPLE'
'apple' <= lower(note || '')
upper(note) IN ('APPLE', 'BANANA', 'ZÜRICH', '', 'AN', 'B')
note || memo LIKE '%an%an%'
note || memo LIKE 'a_p%'
note || memo NOT LIKE '%ü_i%'
upper(note) LIKE 'ZÜ%'
starts_with(note || memo, 'ap')
starts_with(city || word, city)
ends_with(note || memo, 'na')
ends_with(note || city, city)
contains(note || memo, 'na' || memo)
strpos(note || memo, 'na')
strpos(note || memo, '')
strpos(city || note, note)
length(note || memo)
octet_length(upper(note))
ascii(note || memo)
substr(note || memo, 2, 3)
left(note || memo, 2)
left(note || memo, -2)
left(note || memo, small)
right(note || memo, 3)
right(upper(note || memo), small)
substr(note || memo, small)
upper(left(note || memo, 4)) || right(memo, 1)
note || memo ~ 'na.*p'
(note || memo) ILIKE '%AN%'
CASE WHEN small > 0 THEN note || memo WHEN small < -3 THEN word ELSE 'x' END
length(CASE WHEN small > 0 THEN note || memo END)
coalesce(note || word, memo)
nullif(note || memo, memo)
CAST(small AS VARCHAR) LIKE '1%'
length(CAST(big AS VARCHAR))
lpad(note, 5)
lpad(note, 5, 'xyü')
rpad(memo, 4, 'ab')
lpad(note, 3, '')
rpad(note || memo, length(city), memo)
lpad(CAST(small AS VARCHAR), 4, '0')
lpad(word, length(memo), city)
lpad(upper(note), 2, '日')
replace(note, 'an', 'AN-')
replace(memo, 'a', '')
replace(note || memo, 'na', 'x')
replace(word, city, memo)
replace(note, '', 'x')
replace(note, 'banana', '')
reverse(note)
reverse(memo)
reverse(note) || reverse(city)
btrim(' ' || note || '  ')
ltrim(concat(' ', note, ' ')) = note || ' '
rtrim(note || '   ')
btrim(repeat(' ', 3) || '')
length(lpad(note, 20, 'ab'))
lpad(note || memo, 4, 'x') LIKE 'x%'
replace(note || memo, 'a', 'bb') = replace(memo || note, 'a', 'bb')
-- regular expressions and ILIKE over a string without a dictionary
note ~ 'an'
note ~ '^a'
note ~ 'a$'
memo ~ '^$'
memo ~ '^(apple|Zürich)$'
memo ~* 'ZÜR|APPLE'
note !~ '[aeiou]{2}'
note !~* 'B.N'
note ~ '本'
note ~ '^.{3}$'
note ~ '[^a-z]'
note ~ '\d{2,}'
memo ~ '\p{Lu}'
memo ~ '^\w+$'
memo ~ '(?-u:\b)ap'
note ~ 'a.*n.*a'
note ~ ''
memo ~ '(an)+a?$'
memo ~ '.\\.'
regexp_like(note, 'AN', 'i')
regexp_like(memo, '^b.*a$')
regexp_count(note, 'a')
regexp_count(memo, 'an')
regexp_count(memo, '[a-z]+')
regexp_count(note, '^.')
regexp_count(note, '.')
regexp_count(memo, 'a(n|p)?')
regexp_count(memo, 'nan|a')
note ILIKE 'ZÜRICH'
memo ILIKE '%AN%'
memo NOT ILIKE 'a%'
memo ILIKE '_A%A'
note ILIKE '%'
note ILIKE 'under\_%'
note ILIKE '100\%'
note ILIKE '%日_語'
memo ILIKE 'BACK%'
note SIMILAR TO 'a(b|p)%'
CASE WHEN note ~ 'an' THEN left(memo, 2) ELSE right(note, 2) END ~ 'a'
-- more functions of floats
cot(real)
log(real)
log(2, real)
log(real, 3.5)
