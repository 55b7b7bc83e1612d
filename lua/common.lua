-- What every script of the ledger but `probe.lua` shares. Put before each of them when it is loaded.
--
-- KEYS, the same five for every script, all of one account and so of one slot:
--   1 meta   hash: state: in MessagePack the epoch, server, sequence, newest time, how long charges are kept, when the keys'
--            lives are due, whether there are floors; then for each limit its name, its rule ('' where whoever told of it
--            does not know it), total, head, closed until, how long that closing lasts where its
--            reset is unknown, else false (an earlier release wrote true: an hour); floors: lines of a limit's name, and time, used, charged since; checked;
--            epochs: lines of an epoch that is over, and the sequence up to which its data survived, the oldest first
--   2 log    sorted set: one member a charge, its id, by the microsecond at which it was made
--   3 units  hash: id -> units of each limit, in their order in the state: "100" or "0,1"; "0" of a charge of nothing. The
--            empty id is there as long as the hash is: where it is gone, units were lost
--   4 marks  sorted set: instants that part the log into blocks of about BLOCK charges; the newest block is open
--   5 sums   hash: mark -> units in the block that ends with it, its instant included
--
-- ARGV begins, for every script, with values in MessagePack, one after another in each argument:
--   1 the caller's clock; how far ours may be from it, or false; a time to use instead of TIME, or false;
--     what the caller has seen: epoch ('-': do not compare, '': nothing yet), sequence, newest id or '';
--     an epoch to begin where one must begin; how long charges are kept; the number of limits
--   and one for each limit: name, enforced units, sliding span or false, grace, its rule in words, an array of the
--     instants at which days begin.
-- What follows is text.
--
-- Every time and span is in microseconds. Instants stay below 2^53, where a double is exact; they are written as text
-- by `text`, because Lua would join them with 14 digits.
--
-- A limit's total is what was charged from its head on. What lies between the head and the window's beginning has
-- expired and is subtracted at each call; a charge that is granted moves the head there. Removing what is
-- before it from the log can so wait.
--
-- Every reply begins with a word: 'skewed' and how far; 'lost' and why; or what the script says. A replica may lag behind:
-- there every script fails as one that writes.
--
-- A script is built anew at every call: each function and each variable that functions share is a piece of memory. So
-- functions are few, the state stays the array that it is stored as, and what most charges do without is inside
-- `open_archive`, which builds it when it is asked for.

local META, LOG, UNITS, MARKS, SUMS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local BLOCK = 64
-- A charge adds 1 to the sequence; everything else that changes what is used adds this, a multiple of each number of
-- charges after which something is done.
local STRIDE = 512
-- This many epochs that are over are remembered.
local EPOCHS = 16
local LONGEST_BLOCK = 128

-- Where what is where in the state; and in the part of a limit, from its place on.
local EPOCH, SERVER, SEQUENCE, NEWEST, KEEP, RENEWAL, FLOORS = 1, 2, 3, 4, 5, 6, 7
local FIRST_PLACE, NEXT_PLACE = 8, 6
local RULE, TOTAL, HEAD, CLOSED, PROBING = 1, 2, 3, 4, 5

local call, max = redis.call, math.max

local function text(number)
  return string.format('%d', number)
end

-- The caller's terms -------------------------------------------------------------------------------------------------

local caller, max_skew, told, seen_epoch, seen_sequence, seen_newest, fresh_epoch, keep, count =
  cmsgpack.unpack(ARGV[1])
local limits = {}

for index = 1, count do
  local name, enforced, slide, grace, rule, days = cmsgpack.unpack(ARGV[1 + index])
  -- Every field that a limit will have is named, or the table would grow.
  limits[index] = {
    name = name,
    enforced = enforced,
    slide = slide,
    grace = grace,
    rule = rule,
    days = days,
    other_rule = nil,
    from = nil,
    place = nil,
    code = nil,
    sum = nil,
    head = nil,
    used = nil,
    units = nil,
    most = nil,
    held = nil,
  }
end

local position = 1 + count

local function word()
  position = position + 1
  return ARGV[position]
end

local function number()
  position = position + 1
  return tonumber(ARGV[position])
end

-- What is stored -----------------------------------------------------------------------------------------------------

local info = call('INFO', 'replication')
if string.find(info, 'role:slave', 1, true) then
  return redis.error_reply("READONLY You can't write against a read only replica.")
end
local replid = string.find(info, 'master_replid:', 1, true) + 14
local server = string.sub(info, replid, replid + 39)

local clock = told
if not clock then
  local time = call('TIME')
  clock = time[1] * 1000000 + time[2]
end

local stored = call('HGET', META, 'state')
local state = stored and { cmsgpack.unpack(stored) } or { false, server, 0, 0, keep, 0, false }
local stored_epoch, stored_sequence = state[EPOCH], state[SEQUENCE]
keep = max(keep, state[KEEP])
state[KEEP] = keep
-- The ledger's time never runs backwards: it is never before the newest charge, and after every floor.
local now = max(clock, state[NEWEST])

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

-- Limits and floors --------------------------------------------------------------------------------------------------

for _, limit in ipairs(limits) do
  limit.from = counted_from(limit, now)
  for place = FIRST_PLACE, #state, NEXT_PLACE do
    if state[place] == limit.name then
      limit.place, limit.other_rule = place, state[place + RULE]
    end
  end
  if not limit.place then
    limit.place = #state + 1
    for _, value in ipairs({ limit.name, limit.rule, 0, 0, 0, false }) do
      state[#state + 1] = value
    end
  end
  -- Its number in a vector of units.
  limit.code = (limit.place - FIRST_PLACE) / NEXT_PLACE + 1
end

local floors = {}
if state[FLOORS] then
  local written = call('HGET', META, 'floors') or ''
  for name, at, units, after in string.gmatch(written, '([^\n]+)\n(%d+) (%d+) (%d+)\n') do
    floors[#floors + 1] = { name = name, at = tonumber(at), used = tonumber(units), after = tonumber(after) }
  end
end

-- What was seen ------------------------------------------------------------------------------------------------------

-- Why this is not the ledger that the caller has seen; nil where it is.
--   empty, server, behind: somebody must begin a new epoch, so that every machine comes by
--   epoch: somebody has begun one
local loss
if seen_epoch == '-' then
  loss = nil
elseif not state[EPOCH] then
  loss = seen_epoch ~= '' and 'empty' or nil
elseif seen_epoch == '' then
  loss = nil
elseif state[SERVER] ~= server then
  loss = 'server'
elseif state[EPOCH] ~= seen_epoch then
  loss = 'epoch'
elseif state[SEQUENCE] < seen_sequence or (seen_newest ~= '' and not call('ZSCORE', LOG, seen_newest)) then
  loss = 'behind'
end

-- A clock that jumped forward would hand units out twice; one that jumped back would tell a wrong retry. The ledger's own
-- time may be ahead of a clock that was set back.
local skew
if max_skew then
  local apart = max(math.abs(clock - caller), math.abs(now - caller))
  skew = apart > max_skew and { 'skewed', apart } or nil
end

-- What to answer instead of doing anything; nil where all is well. The clock comes first, and nothing was written yet.
local objection = skew or loss and { 'lost', loss }

-- Units --------------------------------------------------------------------------------------------------------------

-- What was charged of a limit, out of what was charged of all.
local function units_in(vector, code)
  if not vector then
    return 0
  end
  if code == 1 then
    return tonumber(string.match(vector, '^%d+') or 0)
  end
  return tonumber(string.match(vector, '^' .. string.rep('%d+,', code - 1) .. '(%d+)') or 0)
end

-- What was charged of all limits as it is written.
local function vector_of(sums)
  local vector, last = nil, 0
  for code = 1, (#state - FIRST_PLACE + 1) / NEXT_PLACE do
    local units = sums[code] or 0
    if units ~= 0 then
      vector = (vector and vector .. ',' or '') .. string.rep('0,', code - 1 - last) .. text(units)
      last = code
    end
  end
  return vector or '0'
end

-- What most charges do without ---------------------------------------------------------------------------------------

local archive
-- Whether floors may be dropped that nobody asks for any more: only a charge moves the ledger's time.
local drops_floors = false

local function open_archive()
  if archive then
    return archive
  end
  archive = {}
  local call, max = redis.call, math.max
  local META, LOG, UNITS, MARKS, SUMS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  -- What was charged before this is forgotten: its id too.
  local kept_from = now - keep + 1

  -- Nobody can say what is used where units are gone. A grant that opens no archive finds it when it writes its own.
  archive.lacks_units = state[EPOCH] and not call('HGET', UNITS, '')
  if archive.lacks_units then
    loss, objection = 'behind', skew or { 'lost', 'behind' }
  end

  function archive.limit_named(name)
    for _, limit in ipairs(limits) do
      if limit.name == name then
        return limit
      end
    end
  end

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

  -- Ids.

  -- Whether the ids of an instant are forgotten.
  function archive.is_forgotten(at)
    return at < kept_from
  end

  -- When the id was charged; nil where it is not known, or forgotten.
  function archive.knows(id)
    local at = tonumber(call('ZSCORE', LOG, id) or nil)
    return at and not archive.is_forgotten(at) and at or nil
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

  -- Where a sum is gone, its block is added up.
  local function blocks(code, marks, first)
    local sum = 0
    for start = first, #marks, 1000 do
      for place, vector in ipairs(call('HMGET', SUMS, unpack(marks, start, math.min(start + 999, #marks)))) do
        local mark = start + place - 1
        sum = sum + (vector and units_in(vector, code) or scan(code, '(' .. marks[mark - 1], marks[mark]))
      end
    end
    return sum
  end

  -- What was charged of a limit from `from` on and before `before`; on to the end where that is nil.
  function archive.between(code, from, before)
    if before and from >= before then
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

  -- Adds to the block that holds an instant; the open one has no sum, and a sum that is gone stays so until it is mended.
  function archive.add_to_block(at, delta)
    local mark = archive.block_end(at)
    local sum = mark and call('HGET', SUMS, mark)
    if sum then
      local sums = add_vector({}, sum, 1)
      for code, units in pairs(delta) do
        sums[code] = (sums[code] or 0) + units
      end
      call('HSET', SUMS, mark, vector_of(sums))
    end
  end

  -- Ends a block at `at`, which must be before the newest charge: what is charged later must be later than every mark.
  function archive.mark(at)
    local first = archive.block_start(at)
    if at >= state[NEWEST] or archive.block_end(at) == text(at) then
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

  -- What would slow down every charge, done at each BLOCKth, after it: the charges before it become a block.
  function archive.end_block()
    local last = call('ZREVRANGEBYSCORE', LOG, '(' .. text(now), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if last then
      archive.mark(tonumber(last))
    end
    archive.evict(4 * BLOCK)
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
        local block = vector and units_in(vector, limit.code) or scan(limit.code, '(' .. mark, marks[place])
        if sum + block >= need then
          low = '(' .. mark
          return search(marks[place])
        end
        sum, mark = sum + block, marks[place]
      end
    end
    return found
  end

  -- Until when a limit is closed; nil where it is open.
  function archive.closed(limit)
    local closed = state[limit.place + CLOSED]
    return closed > now and closed or nil
  end

  -- What a caller who is answered without a grant notes of the ledger: epoch, sequence, now, when the keys' lives were
  -- renewed last.
  function archive.contact()
    return state[EPOCH] or '', state[SEQUENCE], now, stored and max(state[RENEWAL] - math.floor(keep / 16), 0) or 0
  end

  -- Writes down that an epoch is over. Where something of it was lost before the end, nobody can say what survived.
  function archive.end_epoch()
    local lines = {}
    for line in string.gmatch(call('HGET', META, 'epochs') or '', '[^\n]+\n') do
      lines[#lines + 1] = line
    end
    lines[#lines + 1] = stored_epoch .. ' ' .. text(loss == 'behind' and 0 or stored_sequence) .. '\n'
    call('HSET', META, 'epochs', table.concat(lines, '', max(#lines - EPOCHS + 1, 1)))
  end

  -- Whether all survived that the caller had heard of, through every epoch that ended since.
  function archive.survived()
    if loss == 'behind' or stored_sequence < seen_sequence then
      return false
    end
    local found = stored_epoch == seen_epoch
    for epoch, sequence in string.gmatch(call('HGET', META, 'epochs') or '', '(%S+) (%d+)\n') do
      found = found or epoch == seen_epoch
      if found and tonumber(sequence) < seen_sequence then
        return false
      end
    end
    return found
  end

  function archive.remaining(limit)
    return archive.closed(limit) and 0 or max(limit.enforced - limit.used, 0)
  end

  -- The first instant, now or later, at which no more than `most` units of a limit count, if nobody charges.
  function archive.falls_to(limit, most)
    local at = now
    if limit.sum > most then
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

  -- Begins anew with an empty log. Redis can evict keys one by one, and whoever deletes keys may forget some: without the
  -- state, the log or the units the others say nothing. What a total and the floors said is one floor a limit: what they
  -- counted will be told again.
  function archive.empty()
    for place = 2, #KEYS do
      call('PEXPIRE', KEYS[place], '-1')
    end
    local said = {}
    for place = FIRST_PLACE, #state, NEXT_PLACE do
      local name, used = state[place], state[place + TOTAL]
      local limit = archive.limit_named(name)
      for _, floor in ipairs(floors) do
        if floor.name == name and floor.at >= (limit and limit.from or kept_from) then
          used = max(used, floor.used + floor.after)
        end
      end
      if used > 0 then
        said[#said + 1] = { name = name, at = state[NEWEST], used = used, after = 0 }
      end
      state[place + TOTAL] = 0
    end
    floors = said
  end

  -- Adds to a limit's total, if what was charged at `at` is in it.
  function archive.add_to_total(code, at, units)
    local place = FIRST_PLACE + (code - 1) * NEXT_PLACE
    if at >= state[place + HEAD] then
      state[place + TOTAL] = state[place + TOTAL] + units
    end
  end

  -- Records a charge in the log; the totals are the caller's to move.
  function archive.log(id, at, sums)
    call('ZADD', LOG, text(at), id)
    call('HSET', UNITS, id, vector_of(sums))
    state[NEWEST] = max(state[NEWEST], at)
  end

  -- Takes out what a forgotten id has left behind, before the id names a new charge.
  function archive.remove_forgotten(id)
    local at = tonumber(call('ZSCORE', LOG, id) or nil)
    if not at then
      return
    end
    local sums = add_vector({}, call('HGET', UNITS, id), -1)
    for code, units in pairs(sums) do
      archive.add_to_total(code, at, units)
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
          archive.add_to_total(code, tonumber(entries[2 * place]), units)
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

  function archive.add_to_floors(name, at, units)
    for _, floor in ipairs(floors) do
      if floor.name == name and at > floor.at then
        floor.after = max(floor.after + units, 0)
      end
    end
  end

  local function holds(floor)
    local limit = archive.limit_named(floor.name)
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
    for place = FIRST_PLACE, #state, NEXT_PLACE do
      life = max(life, state[place + CLOSED] - now + shortest)
    end
    for _, key in ipairs(KEYS) do
      call('PEXPIRE', key, text(math.ceil(life / 1000)))
    end
  end

  return archive
end

-- Writing ------------------------------------------------------------------------------------------------------------

-- Writes the state. An epoch begins where there is none, or on a server that did not begin it; `renew` where keys may be
-- new.
local function commit(renew)
  if not state[EPOCH] or state[SERVER] ~= server then
    if stored_epoch then
      open_archive().end_epoch()
    end
    state[EPOCH], state[SERVER] = fresh_epoch, server
    call('HSET', UNITS, '', '0')
  end
  renew = renew or now >= state[RENEWAL]
  if renew then
    state[RENEWAL] = now + math.floor(keep / 16)
  end
  state[FLOORS] = #floors > 0 and open_archive().write_floors()
  call('HSET', META, 'state', cmsgpack.pack(unpack(state)))
  if renew then
    open_archive().keep_alive()
  end
end

-- What is used -------------------------------------------------------------------------------------------------------

-- Units that a limit's total still holds and its window does not.
local function expired(limit)
  local ids = call('ZRANGEBYSCORE', LOG, text(limit.head), '(' .. text(limit.from), 'LIMIT', 0, LONGEST_BLOCK)
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

-- Sums up what is used of a limit: `sum`, what was charged from `head` on; `used`, that or more. Only of limits that
-- somebody asks about: one that was not charged for long has much that has expired.
local function add_up(limit)
  limit.sum, limit.head = state[limit.place + TOTAL], state[limit.place + HEAD]
  if limit.other_rule and limit.other_rule ~= limit.rule then
    -- By that rule the head may have passed what counts by this one.
    limit.sum, limit.head = open_archive().between(limit.code, limit.from, nil), limit.from
  elseif limit.head < limit.from and stored then
    limit.sum, limit.head = limit.sum - expired(limit), limit.from
  end
  limit.used = limit.sum
  -- A floor is what a ledger that was lost had said, and what was charged after that.
  for _, floor in ipairs(floors) do
    if floor.name == limit.name and floor.at >= limit.from then
      limit.used = max(limit.used, floor.used + floor.after)
    end
  end
end
