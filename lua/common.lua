-- What every script of the ledger shares. Put before each of them when it is loaded.
--
-- KEYS, the same five for every script, all of one account and so of one slot:
--   1 meta   hash: state: in MessagePack the epoch, server, sequence, newest time, how long charges are kept, when the keys'
--            lives are due, whether there are floors; then for each limit its name, its rule, total, head, closed until,
--            whether one may try then; floors: lines of a limit's name, and time, used, charged since; checked
--   2 log    sorted set: one member a charge, its id, by the microsecond at which it was made
--   3 units  hash: id -> units of each limit, in their order in the state: "100" or "0,1"; a charge of nothing has none
--   4 marks  sorted set: instants that part the log into blocks of about BLOCK charges; the newest block is open
--   5 sums   hash: mark -> units in the block that ends with it, its instant included
--
-- ARGV begins, for every script, with:
--   the caller's clock; how far ours may be from it, or ''; a time to use instead of TIME, or '';
--   what the caller has seen: epoch ('-': do not compare, '': nothing yet), sequence, newest id or '';
--   an epoch to begin where one must begin; how long charges are kept;
--   the number of limits, and for each: name, enforced units, sliding span or '', grace, its rule in words,
--   the number of days, and the instant at which each begins.
--
-- Every time and span is in microseconds. Instants stay below 2^53, where a double is exact; they are written as text
-- by `text`, because Lua would join them with 14 digits.
--
-- A limit's total is what was charged from its head on. What lies between the head and the window's beginning has
-- expired and is subtracted by `used`; a charge that is granted moves the head. Removing it from the log can so wait.
--
-- Every reply begins with a word: 'skewed' and how far; 'lost' and why; or what the script says.
--
-- A script is built anew at every call, function by function. What most charges do without is therefore inside
-- `open_archive`, which builds it when it is asked for.

local META, LOG, UNITS, MARKS, SUMS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local BLOCK = 64
local LONGEST_BLOCK = 2 * BLOCK

local call, tonumber, match, max = redis.call, tonumber, string.match, math.max

local function text(number)
  return string.format('%d', number)
end

-- The caller's terms -------------------------------------------------------------------------------------------------

local caller, max_skew, told = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local seen_epoch, seen_sequence, seen_newest, fresh_epoch = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local keep = tonumber(ARGV[8])
local limits, by_name = {}, {}
local position = 9

for index = 1, tonumber(ARGV[9]) do
  local limit = {
    index = index,
    name = ARGV[position + 1],
    enforced = tonumber(ARGV[position + 2]),
    slide = tonumber(ARGV[position + 3]),
    grace = tonumber(ARGV[position + 4]),
    rule = ARGV[position + 5],
    days = {},
    total = 0,
    head = 0,
    closed = 0,
  }
  local days = tonumber(ARGV[position + 6])
  position = position + 6
  for day = 1, days do
    limit.days[day] = tonumber(ARGV[position + day])
  end
  position = position + days
  limits[index], by_name[limit.name] = limit, limit
end

local function word()
  position = position + 1
  return ARGV[position]
end

local function number()
  position = position + 1
  return tonumber(ARGV[position])
end

-- What is stored -----------------------------------------------------------------------------------------------------

local stored = call('HGET', META, 'state')
-- Every limit that was ever charged, the caller's or not, by its place in a vector of units.
local books = {}
local floors = {}
local epoch, served_by
local sequence, newest_at, renew_at = 0, 0, 0

if stored then
  local kept = { cmsgpack.unpack(stored) }
  epoch, served_by, sequence, newest_at, renew_at = kept[1], kept[2], kept[3], kept[4], kept[6]
  keep = max(keep, kept[5])
  for place = 8, #kept, 6 do
    local name = kept[place]
    local book = by_name[name] or { name = name, rule = kept[place + 1] }
    books[#books + 1] = book
    book.code, book.other_rule = #books, kept[place + 1]
    book.total, book.head, book.closed, book.probing =
      kept[place + 2], kept[place + 3], kept[place + 4], kept[place + 5]
  end
  if kept[7] then
    local written = call('HGET', META, 'floors') or ''
    for name, at, units, after in string.gmatch(written, '([^\n]+)\n(%d+) (%d+) (%d+)\n') do
      floors[#floors + 1] = { name = name, at = tonumber(at), used = tonumber(units), after = tonumber(after) }
    end
  end
end

local info = call('INFO', 'replication')
local replid = string.find(info, 'master_replid:', 1, true) + 14
local server = string.sub(info, replid, replid + 39)

local clock = told
if not clock then
  local time = call('TIME')
  clock = time[1] * 1000000 + time[2]
end
-- The ledger's time never runs backwards: it is never before the newest charge, and after every floor.
local now = max(clock, newest_at)
-- What was charged before this is forgotten: its id too.
local kept_from = now - keep + 1

-- Windows: as src/quota/window.rs has them ---------------------------------------------------------------------------

-- The earliest charge that still counts at `at`.
local function counted_from(limit, at)
  local slid, last = limit.slide and at - limit.slide - limit.grace + 1, nil
  if #limit.days == 0 then
    return slid
  end
  for _, day in ipairs(limit.days) do
    if day > at - limit.grace then
      break
    end
    last = day
  end
  local reset = last and last - limit.grace
  return math.min(slid or reset or at, reset or slid or at)
end

for _, limit in ipairs(limits) do
  limit.from = counted_from(limit, now)
end

-- What is used -------------------------------------------------------------------------------------------------------

local open_archive

-- What was charged of a limit, out of what was charged of all.
local function units_in(vector, code)
  if not vector then
    return 0
  end
  if code == 1 then
    return tonumber(match(vector, '^%d+') or 0)
  end
  return tonumber(match(vector, '^' .. string.rep('%d+,', code - 1) .. '(%d+)') or 0)
end

-- Units that a limit's total still holds and its window does not.
local function expired(limit)
  if not limit.code or limit.head >= limit.from then
    return 0
  end
  local low, high = text(limit.head), '(' .. text(limit.from)
  local ids = call('ZRANGEBYSCORE', LOG, low, high, 'LIMIT', 0, LONGEST_BLOCK)
  if #ids == 0 then
    return 0
  end
  if #ids == LONGEST_BLOCK then
    return open_archive().between(limit.code, limit.head, limit.from)
  end
  local sum = 0
  for _, vector in ipairs(call('HMGET', UNITS, unpack(ids))) do
    sum = sum + units_in(vector, limit.code)
  end
  return sum
end

-- Whatever was charged, or more: a floor is what a ledger that was lost had said, and what was charged after that.
local function used(limit)
  if not limit.sum then
    limit.sum = limit.total - expired(limit)
    limit.used = limit.sum
    for _, floor in ipairs(floors) do
      if floor.name == limit.name and floor.at >= limit.from then
        limit.used = max(limit.used, floor.used + floor.after)
      end
    end
  end
  return limit.used
end

local function remaining(limit)
  if limit.closed > now then
    return 0
  end
  return max(limit.enforced - used(limit), 0)
end

-- When the id was charged; nil where it is not known, or forgotten.
local function knows(id)
  local at = tonumber(call('ZSCORE', LOG, id) or nil)
  return at and at >= kept_from and at
end

-- What was seen ------------------------------------------------------------------------------------------------------

-- Why this is not the ledger that the caller has seen; nil where it is.
--   empty, server, behind: somebody must begin a new epoch, so that every machine comes by
--   epoch: somebody has begun one
local loss
if seen_epoch == '-' then
  loss = nil
elseif not epoch then
  loss = seen_epoch ~= '' and 'empty' or nil
elseif seen_epoch == '' then
  loss = nil
elseif served_by ~= server then
  loss = 'server'
elseif epoch ~= seen_epoch then
  loss = 'epoch'
elseif sequence < seen_sequence or (seen_newest ~= '' and not call('ZSCORE', LOG, seen_newest)) then
  loss = 'behind'
end

-- A clock that jumped forward would hand units out twice; one that jumped back would tell a wrong retry. The ledger's own
-- time may be ahead of a clock that was set back.
local skew
if max_skew and max(math.abs(clock - caller), math.abs(now - caller)) > max_skew then
  skew = { 'skewed', text(max(math.abs(clock - caller), math.abs(now - caller))) }
end

-- What to answer instead of doing anything; nil where all is well. The clock comes first, and nothing was written yet.
local objection = skew or loss and { 'lost', loss }

-- Writing ------------------------------------------------------------------------------------------------------------

-- Whether floors may be dropped that nobody asks for any more: only a charge moves the ledger's time.
local drops_floors = false

local function begin_epoch()
  epoch, served_by = fresh_epoch, server
end

local function code_of(limit)
  if not limit.code then
    books[#books + 1] = limit
    limit.code = #books
  end
  return limit.code
end

local function vector_of(sums)
  if #books == 1 then
    return (sums[1] or 0) ~= 0 and text(sums[1]) or ''
  end
  local words, last = {}, 0
  for place = 1, #books do
    words[place] = text(sums[place] or 0)
    if (sums[place] or 0) ~= 0 then
      last = place
    end
  end
  return table.concat(words, ',', 1, last)
end

local function add_to_floors(name, at, units)
  for _, floor in ipairs(floors) do
    if floor.name == name and at > floor.at then
      floor.after = max(floor.after + units, 0)
    end
  end
end

-- Writes the state. `renew` where keys may be new.
local function commit(renew)
  renew = renew or now >= renew_at
  if renew then
    renew_at = now + math.floor(keep / 16)
  end
  local has_floors = #floors > 0 and open_archive().write_floors()
  local kept = { epoch, served_by, sequence, newest_at, keep, renew_at, has_floors }
  for _, book in ipairs(books) do
    local last = #kept
    kept[last + 1], kept[last + 2], kept[last + 3] = book.name, book.rule, book.total
    kept[last + 4], kept[last + 5], kept[last + 6] = book.head, book.closed, book.probing or false
  end
  call('HSET', META, 'state', cmsgpack.pack(unpack(kept)))
  if renew then
    open_archive().keep_alive()
  end
end

-- What most charges do without ---------------------------------------------------------------------------------------

local archive

function open_archive()
  if archive then
    return archive
  end
  archive = {}

  -- Windows.

  -- The first instant at which a unit charged at `at` no longer counts.
  function archive.expiry(limit, at)
    local slid, reset = limit.slide and at + limit.slide + limit.grace, nil
    for _, day in ipairs(limit.days) do
      if day > at + limit.grace then
        reset = day + limit.grace
        break
      end
    end
    return max(slid or reset or at, reset or slid or at)
  end

  -- Sums over the log.

  local function add_vector(sums, vector, sign)
    local place = 0
    for units in string.gmatch(vector or '', '%d+') do
      place = place + 1
      sums[place] = (sums[place] or 0) + sign * tonumber(units)
    end
    return sums
  end

  function archive.units_of(id)
    return add_vector({}, call('HGET', UNITS, id), 1)
  end

  -- Calls `each(id, vector)` for every charge of a range of the log, a bounded number at a time, until it returns
  -- something.
  function archive.walk(low, high, batch, each)
    local offset = 0
    while true do
      local ids = call('ZRANGEBYSCORE', LOG, low, high, 'LIMIT', offset, batch)
      if #ids == 0 then
        return nil
      end
      local vectors = call('HMGET', UNITS, unpack(ids))
      for place, id in ipairs(ids) do
        local result = each(id, vectors[place])
        if result then
          return result
        end
      end
      if #ids < batch then
        return nil
      end
      offset, batch = offset + batch, math.min(batch * 2, 512)
    end
  end

  local function scan(code, low, high)
    local sum = 0
    archive.walk(low, high, LONGEST_BLOCK, function(_, vector)
      sum = sum + units_in(vector, code)
    end)
    return sum
  end

  function archive.scan_vector(low, high)
    local sums = {}
    archive.walk(low, high, LONGEST_BLOCK, function(_, vector)
      add_vector(sums, vector, 1)
    end)
    return sums
  end

  local function blocks(code, marks, first)
    local sum = 0
    for start = first, #marks, 1000 do
      for _, vector in ipairs(call('HMGET', SUMS, unpack(marks, start, math.min(start + 999, #marks)))) do
        sum = sum + units_in(vector, code)
      end
    end
    return sum
  end

  -- What was charged of a limit from `from` on and before `before`; on to the end where that is nil.
  function archive.between(code, from, before)
    if not code or (before and from >= before) then
      return 0
    end
    local low, high = text(from), before and '(' .. text(before) or '+inf'
    local marks = call('ZRANGEBYSCORE', MARKS, low, high)
    if #marks == 0 then
      return scan(code, low, high)
    end
    return scan(code, low, marks[1]) + blocks(code, marks, 2) + scan(code, '(' .. marks[#marks], high)
  end

  -- Blocks.

  function archive.block_end(at)
    return call('ZRANGEBYSCORE', MARKS, text(at), '+inf', 'LIMIT', 0, 1)[1]
  end

  function archive.block_start(at)
    return call('ZREVRANGEBYSCORE', MARKS, '(' .. text(at), '-inf', 'LIMIT', 0, 1)[1]
  end

  -- Adds to the block that holds an instant; the open one has no sum.
  function archive.add_to_block(at, delta)
    local mark = archive.block_end(at)
    if mark then
      local sums = add_vector({}, call('HGET', SUMS, mark), 1)
      for code, units in pairs(delta) do
        sums[code] = (sums[code] or 0) + units
      end
      call('HSET', SUMS, mark, vector_of(sums))
    end
  end

  -- Ends a block at `at`, which must be before the newest charge: what is charged later must be later than every mark.
  function archive.mark(at)
    local first = archive.block_start(at)
    if at >= newest_at or archive.block_end(at) == text(at) then
      return
    end
    local sums = archive.scan_vector(first and '(' .. first or '-inf', text(at))
    local less = {}
    for code, units in pairs(sums) do
      less[code] = -units
    end
    archive.add_to_block(at, less)
    call('ZADD', MARKS, text(at), text(at))
    call('HSET', SUMS, text(at), vector_of(sums))
  end

  -- The first charge with whose end at least `need` units of a limit have left the window.
  local function leaves_last(limit, need)
    local low, sum = text(limit.from), 0
    local function search(high)
      return archive.walk(low, high, 16, function(entry, vector)
        sum = sum + units_in(vector, limit.code)
        return sum >= need and entry
      end)
    end
    local mark = archive.block_end(limit.from)
    if not mark then
      return search('+inf')
    end
    local found = search(mark)
    while not found do
      local marks = call('ZRANGEBYSCORE', MARKS, '(' .. mark, '+inf', 'LIMIT', 0, 32)
      if #marks == 0 then
        low = '(' .. mark
        return search('+inf')
      end
      for place, vector in ipairs(call('HMGET', SUMS, unpack(marks))) do
        local block = units_in(vector, limit.code)
        if sum + block >= need then
          low = '(' .. mark
          return search(marks[place])
        end
        sum, mark = sum + block, marks[place]
      end
    end
    return found
  end

  -- The first instant, now or later, at which no more than `most` units of a limit count, if nobody charges.
  function archive.falls_to(limit, most)
    local at = now
    if used(limit) > most and limit.sum > most then
      local last = leaves_last(limit, limit.sum - most)
      at = max(at, archive.expiry(limit, last and tonumber(call('ZSCORE', LOG, last)) or now))
    end
    for _, floor in ipairs(floors) do
      if floor.name == limit.name and floor.at >= limit.from and floor.used + floor.after > most then
        at = max(at, archive.expiry(limit, floor.at))
      end
    end
    return at
  end

  -- Totals.

  -- Adds to a limit's total, if what was charged at `at` is in it.
  function archive.add_to_total(book, at, units)
    if at >= book.head then
      book.total = book.total + units
    end
  end

  -- Records a charge in the log; the totals are the caller's to move.
  function archive.log(id, at, sums)
    local vector = vector_of(sums)
    call('ZADD', LOG, text(at), id)
    if vector == '' then
      call('HDEL', UNITS, id)
    else
      call('HSET', UNITS, id, vector)
    end
    newest_at = max(newest_at, at)
  end

  -- Takes out what a forgotten id has left behind, before the id names a new charge.
  function archive.remove_forgotten(id)
    local at = tonumber(call('ZSCORE', LOG, id) or nil)
    if not at then
      return
    end
    local sums = add_vector({}, call('HGET', UNITS, id), -1)
    for code, units in pairs(sums) do
      archive.add_to_total(books[code], at, units)
    end
    archive.add_to_block(at, sums)
    call('ZREM', LOG, id)
    call('HDEL', UNITS, id)
  end

  -- Removes what is older than is kept, a bounded number at a time. Before `commit`: it changes totals.
  function archive.evict(most)
    local entries = call('ZRANGEBYSCORE', LOG, '-inf', '(' .. text(kept_from), 'WITHSCORES', 'LIMIT', 0, most)
    if #entries == 0 then
      return
    end
    local ids = {}
    for place = 1, #entries, 2 do
      ids[#ids + 1] = entries[place]
    end
    for place, vector in ipairs(call('HMGET', UNITS, unpack(ids))) do
      for code, units in pairs(add_vector({}, vector, -1)) do
        if units ~= 0 then
          archive.add_to_total(books[code], tonumber(entries[2 * place]), units)
        end
      end
    end
    call('HDEL', UNITS, unpack(ids))
    call('ZREMRANGEBYRANK', LOG, 0, #ids - 1)
    local first = call('ZRANGE', LOG, 0, 0, 'WITHSCORES')[2]
    local dead = call('ZRANGEBYSCORE', MARKS, '-inf', first and '(' .. first or '+inf', 'LIMIT', 0, most)
    if #dead > 0 then
      call('HDEL', SUMS, unpack(dead))
      call('ZREM', MARKS, unpack(dead))
    end
    local last = first and archive.block_end(tonumber(first))
    if last then
      call('HSET', SUMS, last, vector_of(archive.scan_vector('-inf', last)))
    end
  end

  -- Floors, and the lives of keys.

  local function holds(floor)
    local limit = by_name[floor.name]
    return not drops_floors or floor.at >= (limit and limit.from or kept_from)
  end

  -- Whether any floor is left.
  function archive.write_floors()
    local lines = {}
    for _, floor in ipairs(floors) do
      if holds(floor) then
        lines[#lines + 1] =
          floor.name .. '\n' .. text(floor.at) .. ' ' .. text(floor.used) .. ' ' .. text(floor.after) .. '\n'
      end
    end
    call('HSET', META, 'floors', table.concat(lines))
    return #lines > 0
  end

  -- Keys outlive the longest window and every closing. Called when a sixteenth of that has gone by, and where keys may
  -- be new.
  function archive.keep_alive()
    local shortest = 26 * 60 * 60 * 1000000
    local life = max(keep * 9 / 8, shortest)
    for _, limit in ipairs(books) do
      life = max(life, limit.closed - now + shortest)
    end
    for _, key in ipairs(KEYS) do
      call('PEXPIRE', key, text(math.ceil(life / 1000)))
    end
  end

  return archive
end
