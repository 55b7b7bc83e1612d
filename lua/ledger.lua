-- The ledger of one account: its layout, and how every operation begins and ends. The rules (L1 to L51) are those of
-- docs/ledger-protocol.md. Times and spans are microseconds. What is stored is MessagePack, one value after another.
--
-- The files of this directory are one text, in the order of crates/ledger/src/redis/library.rs. Redis runs it as a library of
-- functions, or as a script. Its variables hold one account during one operation; `begin` sets all of them.
--
-- KEYS, the same three for every operation, in one slot:
--   1 main  hash
--       about        epoch; server; for how long charges are kept; when the lives of the keys were renewed; the latest instant until
--                    which a limit was ever closed; the numbers of chunks and of limits; up to when records are merged; the time of
--                    the newest floor; up to when records were removed all at once
--       open         sequence and ledger time (8 bytes each); the open records, the newest ones
--       limit:NAME   number; rule in words ('' until it is charged); total; front; ahead: time and units of the records that the
--                    total counts first, as far as they are known; whether these are all; closed until; how long a closing without a
--                    known reset lasted, or false; floors: time, used, charged since, one after another, or false
--       name:NUMBER  the field of the limit of that number
--       epochs       epochs that are over, and the sequence that survived of each, the oldest first
--   2 log   sorted set: chunks of older records, by the time of their last record. No two chunks share an instant
--   3 ids   hash: id -> time of its newest record in a chunk. The empty id marks that the hash is whole
-- A record: time; id; units by number of the limit; where its id is remembered for as long as it may count (L11): 'told', since it
-- came from elsewhere, or 'released', which is final (L14); else false.
-- A chunk: time of its first record, of its last; sums of units by number of the limit; its records.
-- The total of a limit sums its records from `front` on.
--
-- ARGV: 1 the caller's terms, as `begin` reads them; then the fields of the limits that the operation needs; then its own.
-- An id stands between zero bytes, so that its bytes are found in no other.
-- Reply, where nothing was done: 'skewed' and by how much (L5); 'lost' (L35).

-- The open records become a chunk when they have more bytes, which are about 16 records; a chunk of more than twice as many is
-- divided. A limit knows all of its records as long as they have few bytes.
local MOST_OPEN, CHUNK, MOST_KNOWN = 400, 16, 50
-- A charge adds 1 to the sequence, and any other change this: so the loss of a correction is found too.
local STRIDE = 512
-- Lua's stack holds 8,000 values. A part of the log that is replied has at most about so many bytes.
local BATCH, MOST_BYTES = 1000, 1000000
local MINUTE, HOUR, DAY = 60000000, 3600000000, 86400000000
local NUMBER, RULE, TOTAL, FRONT, AHEAD, WHOLE, CLOSED, PROBING, FLOORS = 1, 2, 3, 4, 5, 6, 7, 8, 9
local AT, ID, UNITS, LASTS = 1, 2, 3, 4
-- The caller's terms: its clock; how far the ledger's may be from it, or false; a time to use instead of Redis', or false; the
-- epoch, sequence and newest id that it has seen ('-': do not compare; '': nothing yet); the epoch to begin if one must begin; for
-- how long it keeps charges; for how long windows that slide remember ids; when calendars forget them, as `counted_from` takes it;
-- how long keys live at least; the number of limits; the id in question, and up to when its records do not count as its own.
local caller, max_skew, told, seen_epoch, seen_sequence, seen_newest, fresh_epoch, kept, remember, forgets, least_life, count, id
local forgotten
-- The ledger: what is stored, as described above.
local MAIN, LOG, IDS, args, stored, epoch, home, keep, renewed, closing, chunks, size, merged, floored, cleared
local sequence, newest, records
-- The server's clock; the ledger's time; the sequence before this operation; the first charge whose id counts as remembered, once a
-- function reads it; why this is not the ledger that the caller has seen, or false.
local clock, now, previous, remembered_from, loss
-- Whether `about` changes, whether lives are renewed; fields and values to write, `open` first; the limits to write, by field. Tables
-- of a charge are made with room for what they usually hold: to grow takes a third of a command.
local changes, renews, writes, limits
-- The replication id of this server. It is read where the ledger's is another one: Redis loads a library anew when it starts or
-- takes all its data from another server, so what the variable names has been this server since the data came (L33).
local server
local call, find, match, sub, pack, unpack_all, unpack_some, struct_pack, struct_unpack, min, max

local function append(list, ...)
  for _, value in ipairs({ ... }) do
    list[#list + 1] = value
  end
end

-- Calls a command with a list of any length from a place on, a part at a time; returns what the calls reply.
local function call_with(command, key, list, first, last)
  local replies = {}
  for start = first, last, BATCH do
    local more = call(command, key, unpack(list, start, min(start + BATCH - 1, last)))
    append(replies, unpack(type(more) == 'table' and more or {}))
  end
  return replies
end

-- The earliest charge that a window counts: `Window::counted_from` (L2). `back`: how far it slides, or false. `part`: the length of
-- the parts in which it counts, or false. `periods`: the instants at which a calendar changes what counts, each before the instant
-- from which charges count since then; or false.
local function counted_from(back, part, periods)
  local from, reset = back and now - back, periods and periods[2]
  for place = 3, periods and #periods or 0, 2 do
    reset = periods[place] <= now and periods[place + 1] or reset
  end
  from = reset and min(from or reset, reset) or from
  return part and from - from % part or from
end

local function is_recorded(id)
  return find(records, id, 1, true) or chunks > 0 and call('HGET', IDS, id)
end

-- Whether a part of the keys is gone: evicted, deleted, or never replicated.
local function is_torn()
  return chunks > 0 and (call('ZCARD', LOG) ~= chunks or not call('HGET', IDS, ''))
end

-- Reads the ledger. Returns a reply where nothing can be done.
local function begin(keys, arguments)
  if not call then
    -- Redis offers these only while a function runs, not while it loads the library.
    call, find, match, sub = redis.call, string.find, string.match, string.sub
    min, max, struct_pack, struct_unpack = math.min, math.max, struct.pack, struct.unpack
    pack, unpack_all, unpack_some = cmsgpack.pack, cmsgpack.unpack, cmsgpack.unpack_limit
  end
  MAIN, LOG, IDS, args = keys[1], keys[2], keys[3], arguments
  caller, max_skew, told, seen_epoch, seen_sequence, seen_newest, fresh_epoch, kept, remember, forgets, least_life, count, id, forgotten =
    unpack_all(args[1])
  local time = told or call('TIME')
  clock = told or time[1] * 1000000 + time[2]
  if count < BATCH then
    stored = call('HMGET', MAIN, 'about', 'open', unpack(args, 2, 1 + count))
  else
    args[0], args[1] = 'about', 'open'
    stored = call_with('HMGET', MAIN, args, 0, 1 + count)
  end
  if stored[1] then
    epoch, home, keep, renewed, closing, chunks, size, merged, floored, cleared = unpack_all(stored[1])
    sequence, newest = struct_unpack('>I8I8', stored[2])
    records = sub(stored[2], 17)
  else
    epoch, home, keep, renewed, closing, chunks, size, merged, floored, cleared = false, false, kept, 0, 0, 0, 0, 0, 0, 0
    sequence, newest, records = 0, 0, ''
  end
  if home ~= server or not server then
    local info = call('INFO', 'replication')
    server = find(info, 'role:master', 1, true) and match(info, 'master_replid:(%x+)')
    -- A rejection writes nothing that Redis would refuse on a replica, which may lag behind (L51).
    if not server then
      return redis.error_reply("READONLY You can't write against a read only replica.")
    end
  end
  changes, previous = not epoch or kept > keep, sequence
  renews, keep = changes, changes and kept or keep
  writes, limits, remembered_from = { 'open', '', nil, nil }, {}, nil
  -- The ledger's time never runs backwards (L4).
  now = clock > newest and clock or newest
  -- The clocks come first (L5). The ledger's time may be ahead of a clock that was set back; it is never behind it.
  if max_skew and (now - caller > max_skew or caller - clock > max_skew) then
    return { 'skewed', max(now - caller, caller - clock) }
  end
  -- Why this is not the ledger that the caller has seen (L34, L35).
  loss = seen_epoch ~= '-' and seen_epoch ~= '' and (not epoch and 'empty' or home ~= server and 'server'
    or epoch ~= seen_epoch and 'epoch'
    or (sequence < seen_sequence or seen_newest ~= '' and not is_recorded(seen_newest)) and 'behind')
end

-- The report of a reply that changes nothing: epoch or '', sequence and time; when lives were renewed; the server's clock.
local function report()
  return { { epoch or '', sequence, now }, renewed, clock }
end

local operations = {}
-- Offers an operation. `reads_log`: whether it needs all of the log. `copes`: whether it goes on after a loss.
local function offer(name, reads_log, copes, run)
  operations[name] = function(keys, arguments)
    local refused = begin(keys, arguments)
    loss = not refused and reads_log and is_torn() and 'torn' or loss
    return refused or loss and not copes and { 'lost' } or run()
  end
end

-- Opens a limit to change it: by its field, and by what is stored of it.
local function open_limit(field, value)
  if not limits[field] and value then
    limits[field] = { unpack_all(value) }
  elseif not limits[field] then
    size, changes = size + 1, true
    append(writes, 'name:' .. size, field)
    limits[field] = { size, false, 0, now, '', true, 0, false, false }
  end
  return limits[field]
end

-- The limit of a place among the arguments.
local function limit_sent(index)
  return open_limit(args[1 + index], stored[2 + index])
end

local function limit_numbered(number)
  local field = call('HGET', MAIN, 'name:' .. number)
  return open_limit(field, call('HGET', MAIN, field))
end

-- Records that the epoch is over, and the sequence up to which its data survived (L41).
local function end_epoch(survived)
  local over = call('HGET', MAIN, 'epochs')
  local epochs = over and { unpack_all(over) } or {}
  append(epochs, epoch, survived)
  append(writes, 'epochs', pack(unpack(epochs, max(1, #epochs - 31))))
  epoch = false
end

-- Writes the ledger with one more open record. An epoch begins where there is none, or where another server began it (L36).
local function finish(record)
  if epoch and home ~= server then
    end_epoch(previous)
  end
  renews = renews or not epoch or now >= renewed + keep / 16
  epoch, home, renewed = epoch or fresh_epoch, server, renews and now or renewed
  for field, limit in next, limits do
    limit[RULE] = limit[RULE] or ''
    writes[#writes + 1], writes[#writes + 2] = field, pack(unpack(limit))
  end
  if changes or renews then
    append(writes, 'about', pack(epoch, home, keep, renewed, closing, chunks, size, merged, floored, cleared))
  end
  writes[2] = struct_pack('>I8I8', sequence, newest) .. records .. (record or '')
  local _ = #writes < BATCH and call('HSET', MAIN, unpack(writes)) or call_with('HSET', MAIN, writes, 1, #writes)
  if renews then
    -- Keys outlive the longest window and every closing (L50).
    local life = math.ceil(max(keep * 9 / 8, least_life, closing - now + least_life) / 1000)
    for _, key in ipairs({ MAIN, LOG, IDS }) do
      call('PEXPIRE', key, life)
    end
  end
end
