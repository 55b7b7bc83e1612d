-- The caller's terms: the first arguments of every script but `probe.lua`, and all of `charge.lua`. What follows them is text.
--
-- KEYS, the same five for every script, all of one account and so of one slot:
--   1 meta   hash: state: in MessagePack the epoch, server, sequence, newest time, how long charges are kept, when the
--            keys' lives are renewed (while there is no log: when they were, negative), whether there are floors; then for each limit its name, its rule ('' when the machine
--            that sent it does not know it), total, head, closed until, and how long that closing lasts when its reset is
--            unknown, else false (an earlier release wrote true: an hour);
--            floors: lines of a limit's name, and time, used, charged since;
--            checked: the mark up to which `check.lua` has compared the sums;
--            merged: up to when charges whose ids are forgotten are merged;
--            epochs: lines of an epoch that is over, and the sequence up to which its data survived, the oldest first.
--            Where there are more than MOST_TOGETHER limits, a charge would read and write them all. Then the state is the
--            byte APART, and instead of it and of the floors there are
--            header: the first seven values, the number of limits, the latest instant until which one was ever closed;
--            limit:NAME: the limit's number, rule, total, head, closed until, how long that closing lasts; then for each of
--            its floors the time, used, charged since;
--            code:NUMBER: the name of the limit of that number
--   2 log    sorted set: one member a charge, its id, by the microsecond at which it was made
--   3 units  hash: id -> units of each limit, in their order in the state: "100" or "0,1"; "0" of a charge of nothing.
--            Where there are more than MOST_TOGETHER limits, the numbers of those that are charged, and units: "2:1,70:100".
--            A "+" behind them: the id is remembered while the charge may count, since it was absorbed, or settled before it
--            arrived. An id of a zero byte and an instant is no charge's: it stands for charges whose ids are forgotten.
--            The empty id lives as long as the hash: when it is gone, units were lost
--   4 marks  sorted set: instants that divide the log into blocks of about BLOCK charges; the newest block is open
--   5 sums   hash: mark -> units in the block that ends with it, its instant included
--
-- ARGV begins with values in MessagePack, one after another in each argument:
--   1 the caller's clock; how far the ledger's may be from it, or false; a time to use instead of TIME, or false;
--     what the caller has seen: epoch ('-': do not compare, '': nothing yet), sequence, newest id or '';
--     an epoch to begin when one must begin; how long charges are kept; how long their ids are remembered; how long keys
--     live at least; the number of limits
--   and one for each limit: name, enforced units, sliding span or false, grace, the length of the parts in which it counts
--     or false, its rule in words, an array of the instants at which days begin, or instead of the array the number of an
--     earlier limit with the same window.
-- Those of a charge end with more: the first with its id, each of the others with the units to take and those to leave free.
-- Of an account with many limits, those are sent that a script needs: a charge takes from few of them.
--
-- Every time and span is in microseconds. Instants stay below 2^53, where a double is exact; they are written with '%d',
-- because Lua would join them with 14 digits.
--
-- Redis runs the whole text of a script at every call. Each function then costs a piece of memory, and so does each
-- variable that a function takes from outside it; together they cost as much as the commands. So what most charges do
-- without is inside functions that build it on demand (`open_log`, `open_forecast`, `open_changes`), functions get the
-- table `ledger` instead of variables, and the names in capitals are replaced by their numbers when a script is assembled
-- (crates/ledger/src/redis/scripts.rs).

local call = redis.call

local caller, max_skew, told, seen_epoch, seen_sequence, seen_newest, fresh_epoch, keep, remember, least_life, count, id =
  cmsgpack.unpack(ARGV[1])
