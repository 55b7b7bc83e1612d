-- What every script of the ledger shares. Put before each of them when it is loaded.
--
-- KEYS, the same five for every script, all of one account and so of one slot:
--   1 meta   hash: epoch, server, sequence, at, keep, renew, names, floors, checked; and by limit total:, head:, rule:,
--            closed:
--   2 log    sorted set: one member a charge, its id, by the microsecond at which it was made
--   3 units  hash: id -> units of each limit, in the order of `names`: "100" or "0,1"; a charge of nothing has none
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
-- `total:` is what was charged from `head:` on. What lies between the head and the window's beginning has expired and
-- is subtracted by `used`; a charge that is granted moves the head. Removing it from the log can so wait, in batches.
--
-- Every reply begins with a word: 'skewed' and how far; 'lost' and why; or what the script says.

local META, LOG, UNITS, MARKS, SUMS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local BLOCK = 64
local LONGEST_BLOCK = 2 * BLOCK
local SHORTEST_LIFE = 26 * 60 * 60 * 1000000

local call = redis.call

local function text(number)
  return string.format('%.0f', number)
end

local position = 0

local function word()
  position = position + 1
  return ARGV[position]
end

local function number()
  return tonumber(word())
end

-- The caller's terms -------------------------------------------------------------------------------------------------

local caller, max_skew, told = number(), number(), number()
local seen = { epoch = word(), sequence = number(), newest = word() }
local fresh_epoch = word()
local keep = number()
local limits = {}

for index = 1, number() do
  local limit = { index = index, name = word(), enforced = number(), slide = number(), grace = number(), rule = word() }
  limit.days = {}
  for day = 1, number() do
    limit.days[day] = number()
  end
  limits[index] = limit
end

-- What is stored -----------------------------------------------------------------------------------------------------

local FIELDS_OF_LIMIT = { 'total:', 'head:', 'rule:', 'closed:' }

local function load()
  local fields = { 'epoch', 'server', 'sequence', 'at', 'keep', 'renew', 'names', 'floors' }
  for _, limit in ipairs(limits) do
    for _, field in ipairs(FIELDS_OF_LIMIT) do
      fields[#fields + 1] = field .. limit.name
    end
  end
  return call('HMGET', META, unpack(fields))
end

local stored = load()
local state = {
  epoch = stored[1],
  server = stored[2],
  sequence = tonumber(stored[3] or 0),
  at = tonumber(stored[4] or 0),
  keep = math.max(keep, tonumber(stored[5] or 0)),
  renew = tonumber(stored[6] or 0),
  names = {},
  floors = {},
}
local codes = {}

for name in string.gmatch(stored[7] or '', '[^\n]+') do
  state.names[#state.names + 1] = name
  codes[name] = #state.names
end

for name, at, used, after in string.gmatch(stored[8] or '', '([^\n]+)\n(%d+) (%d+) (%d+)\n') do
  state.floors[#state.floors + 1] =
    { name = name, at = tonumber(at), used = tonumber(used), after = tonumber(after) }
end

for index, limit in ipairs(limits) do
  local first = 8 + (index - 1) * #FIELDS_OF_LIMIT
  limit.code = codes[limit.name]
  limit.total = tonumber(stored[first + 1] or 0)
  limit.head = tonumber(stored[first + 2] or 0)
  limit.other_rule = stored[first + 3]
  local closed, probing = string.match(stored[first + 4] or '', '^(%d+) (%d)$')
  limit.closed, limit.probing = tonumber(closed), probing == '1'
end

local server = string.match(call('INFO', 'replication'), 'master_replid:(%w+)')

local function read_clock()
  if told then
    return told
  end
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local clock = read_clock()
-- The ledger's time never runs backwards: it is never before the newest charge, and after every floor.
local now = math.max(clock, state.at)
-- What was charged before this is forgotten: its id too.
local kept_from = now - state.keep + 1

-- Windows: as src/quota/window.rs has them ---------------------------------------------------------------------------

local function last_day(limit, at)
  local last
  for _, day in ipairs(limit.days) do
    if day > at then
      break
    end
    last = day
  end
  return last
end

local function next_day(limit, at)
  for _, day in ipairs(limit.days) do
    if day > at then
      return day
    end
  end
end

-- The first instant at which a unit charged at `at` no longer counts.
local function expiry(limit, at)
  local slid = limit.slide and at + limit.slide + limit.grace
  local day = next_day(limit, at + limit.grace)
  local reset = day and day + limit.grace
  return math.max(slid or reset or at, reset or slid or at)
end

-- The earliest charge that still counts at `at`.
local function counted_from(limit, at)
  local slid = limit.slide and at - limit.slide - limit.grace + 1
  local day = last_day(limit, at - limit.grace)
  local reset = day and day - limit.grace
  return math.min(slid or reset or at, reset or slid or at)
end

for _, limit in ipairs(limits) do
  limit.from = counted_from(limit, now)
end

-- Units of charges ---------------------------------------------------------------------------------------------------

local function units_in(vector, code)
  if not vector then
    return 0
  end
  local place = 0
  for units in string.gmatch(vector, '%d+') do
    place = place + 1
    if place == code then
      return tonumber(units)
    end
  end
  return 0
end

local function add_vector(sums, vector, sign)
  local place = 0
  for units in string.gmatch(vector or '', '%d+') do
    place = place + 1
    sums[place] = (sums[place] or 0) + sign * tonumber(units)
  end
end

local function vector_of(sums)
  local words, last = {}, 0
  for place = 1, #state.names do
    words[place] = text(sums[place] or 0)
    if (sums[place] or 0) ~= 0 then
      last = place
    end
  end
  return table.concat(words, ',', 1, last)
end

-- Calls `each(id, vector)` for every charge of a range of the log, a bounded number at a time, until it returns
-- something.
local function walk(low, high, batch, each)
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

local function scan(code, low, high, batch)
  local sum = 0
  walk(low, high, batch or LONGEST_BLOCK, function(_, vector)
    sum = sum + units_in(vector, code)
  end)
  return sum
end

local function scan_vector(low, high)
  local sums = {}
  walk(low, high, LONGEST_BLOCK, function(_, vector)
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
local function between(code, from, before)
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

-- What is used -------------------------------------------------------------------------------------------------------

-- Whatever was charged, and a floor: what a ledger that was lost had said, and what was charged after that.
local function used(limit)
  if not limit.sum then
    limit.sum = limit.total - between(limit.code, limit.head, limit.from)
    limit.used = limit.sum
    for _, floor in ipairs(state.floors) do
      if floor.name == limit.name and floor.at >= limit.from then
        limit.used = math.max(limit.used, floor.used + floor.after)
      end
    end
  end
  return limit.used
end

local function is_closed(limit)
  return limit.closed ~= nil and limit.closed > now
end

local function remaining(limit)
  if is_closed(limit) then
    return 0
  end
  return math.max(limit.enforced - used(limit), 0)
end

-- What was seen ------------------------------------------------------------------------------------------------------

local function knows(id)
  local at = tonumber(call('ZSCORE', LOG, id) or nil)
  return at and at >= kept_from and at
end

-- Why this is not the ledger that the caller has seen; nil where it is.
--   empty, server, behind: somebody must begin a new epoch, so that every machine comes by
--   epoch: somebody has begun one
local function loss()
  if seen.epoch == '-' then
    return nil
  end
  if not state.epoch then
    return seen.epoch ~= '' and 'empty' or nil
  end
  if seen.epoch == '' then
    return nil
  end
  if state.server ~= server then
    return 'server'
  end
  if state.epoch ~= seen.epoch then
    return 'epoch'
  end
  if state.sequence < seen.sequence or (seen.newest ~= '' and not call('ZSCORE', LOG, seen.newest)) then
    return 'behind'
  end
end

-- A clock that jumped forward would hand units out twice; one that jumped back would tell a wrong retry. The ledger's own
-- time may be ahead of a clock that was set back.
local function skewed()
  for _, at in ipairs({ clock, now }) do
    if max_skew and math.abs(at - caller) > max_skew then
      return { 'skewed', text(at - caller) }
    end
  end
end

-- What to answer instead of doing anything; nil where all is well. The clock is compared first, and nothing was
-- written yet.
local function objection()
  local skew = skewed()
  if skew then
    return skew
  end
  local why = loss()
  return why and { 'lost', why }
end

-- Writing ------------------------------------------------------------------------------------------------------------

local changes = {}

local function put(field, value)
  changes[field] = value
end

local function write_changes()
  local words = {}
  for field, value in pairs(changes) do
    words[#words + 1] = field
    words[#words + 1] = value
  end
  call('HSET', META, unpack(words))
end

local function begin_epoch()
  state.epoch, state.server = fresh_epoch, server
  put('epoch', fresh_epoch)
  put('server', server)
end

local function code_of(limit)
  if not limit.code then
    state.names[#state.names + 1] = limit.name
    limit.code = #state.names
    codes[limit.name] = limit.code
    put('names', table.concat(state.names, '\n') .. '\n')
  end
  return limit.code
end

-- Moves a limit's head to the beginning of its window.
local function advance(limit)
  used(limit)
  limit.total = limit.sum
  limit.head = math.max(limit.head, limit.from)
end

local function put_limit(limit)
  put('total:' .. limit.name, text(limit.total))
  put('head:' .. limit.name, text(limit.head))
end

-- Adds to the total of a limit that may not be one of the caller's.
local function add_to_total(name, at, units)
  for _, limit in ipairs(limits) do
    if limit.name == name then
      if at >= limit.head then
        limit.total = limit.total + units
        put_limit(limit)
      end
      return
    end
  end
  if at >= tonumber(call('HGET', META, 'head:' .. name) or 0) then
    call('HINCRBY', META, 'total:' .. name, text(units))
  end
end

local function add_to_floors(name, at, units)
  for _, floor in ipairs(state.floors) do
    if floor.name == name and at > floor.at then
      floor.after = math.max(floor.after + units, 0)
    end
  end
end

-- Whether anything may still ask for a floor. Only a charge drops floors: it moves the ledger's time.
local function floor_holds(floor)
  for _, limit in ipairs(limits) do
    if limit.name == floor.name then
      return floor.at >= limit.from
    end
  end
  return floor.at >= kept_from
end

local function put_floors()
  local lines = {}
  for _, floor in ipairs(state.floors) do
    if not state.drops_floors or floor_holds(floor) then
      lines[#lines + 1] =
        floor.name .. '\n' .. text(floor.at) .. ' ' .. text(floor.used) .. ' ' .. text(floor.after) .. '\n'
    end
  end
  if #lines > 0 or stored[8] then
    put('floors', table.concat(lines))
  end
end

local function set_units(id, sums)
  local vector = vector_of(sums)
  if vector == '' then
    call('HDEL', UNITS, id)
  else
    call('HSET', UNITS, id, vector)
  end
end

local function add_to_block(mark, delta)
  local sums = {}
  add_vector(sums, call('HGET', SUMS, mark) or '', 1)
  for code, units in pairs(delta) do
    sums[code] = (sums[code] or 0) + units
  end
  call('HSET', SUMS, mark, vector_of(sums))
end

local function block_end(at)
  return call('ZRANGEBYSCORE', MARKS, text(at), '+inf', 'LIMIT', 0, 1)[1]
end

local function block_start(at)
  return call('ZREVRANGEBYSCORE', MARKS, '(' .. text(at), '-inf', 'LIMIT', 0, 1)[1]
end

-- Ends a block at `at`, which must be before the newest charge: what is charged later must be later than every mark.
local function mark(at)
  local first, last = block_start(at), block_end(at)
  if at >= state.at or last == text(at) then
    return
  end
  local sums = scan_vector(first and '(' .. first or '-inf', text(at))
  if last then
    local less = {}
    for code, units in pairs(sums) do
      less[code] = -units
    end
    add_to_block(last, less)
  end
  call('ZADD', MARKS, text(at), text(at))
  call('HSET', SUMS, text(at), vector_of(sums))
end

-- Keys outlive the longest window and every closing. Called when a sixteenth of that has gone by, and where keys may be
-- new.
local function keep_alive()
  local life = math.max(state.keep * 9 / 8, SHORTEST_LIFE)
  for _, limit in ipairs(limits) do
    life = math.max(life, (limit.closed or now) - now + SHORTEST_LIFE)
  end
  for _, key in ipairs(KEYS) do
    call('PEXPIRE', key, text(math.ceil(life / 1000)))
  end
end

-- Writes what changed. `renew` where keys may be new.
local function commit(renew)
  renew = renew or now >= state.renew
  put('at', text(state.at))
  put('keep', text(state.keep))
  put_floors()
  if renew then
    put('renew', text(now + math.floor(state.keep / 16)))
  end
  write_changes()
  if renew then
    keep_alive()
  end
end

local function newest(at)
  state.at = math.max(state.at, at)
end

-- Records a charge in the log; the totals are the caller's to move.
local function log(id, at, sums)
  call('ZADD', LOG, text(at), id)
  set_units(id, sums)
  newest(at)
end

-- Takes out what a forgotten id has left behind, before the id names a new charge.
local function remove_forgotten(id)
  local at = tonumber(call('ZSCORE', LOG, id) or nil)
  if not at then
    return
  end
  local sums, last = {}, block_end(at)
  add_vector(sums, call('HGET', UNITS, id), -1)
  for code, units in pairs(sums) do
    add_to_total(state.names[code], at, units)
  end
  if last then
    add_to_block(last, sums)
  end
  call('ZREM', LOG, id)
  call('HDEL', UNITS, id)
end

-- Removes what is older than is kept, a bounded number at a time. After `commit`: it changes what is stored.
local function evict(most)
  local ids = call('ZRANGEBYSCORE', LOG, '-inf', '(' .. text(kept_from), 'LIMIT', 0, most)
  if #ids == 0 then
    return
  end
  local fields = {}
  for _, name in ipairs(state.names) do
    fields[#fields + 1] = 'total:' .. name
    fields[#fields + 1] = 'head:' .. name
  end
  local vectors = call('HMGET', UNITS, unpack(ids))
  local heads = #fields > 0 and call('HMGET', META, unpack(fields)) or {}
  for place, id in ipairs(ids) do
    local at = tonumber(call('ZSCORE', LOG, id))
    for code, name in ipairs(state.names) do
      local units = units_in(vectors[place], code)
      if units > 0 and at >= tonumber(heads[2 * code] or 0) then
        call('HINCRBY', META, 'total:' .. name, text(-units))
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
end
