-- Takes units of one or more limits, all or nothing, and records them under an id.
--
-- ARGV after the common ones: the id; for each limit: units, and what must be left free.
-- Reply, the word first:
--   granted   epoch, sequence, the time of the charge; for each limit that is charged: used, '1' where this charge tries
--             a closed limit, and the rule of somebody who disagrees about the limit, or ''.
--   repeated  the same for a known id. Nothing was written.
--   rejected  the time by its own clock, the number of the limit that fits last, used, remaining, the instant at which this charge fits, until
--             when the limit is closed or ''. Nothing was written.
--   never     the number of the limit, the most that one charge can take. Nothing was written.
-- Cost: O(log n) for n charges in the log, whatever they took; a rejection adds the blocks that must leave first.

local id = word()
for _, limit in ipairs(limits) do
  limit.units, limit.leave = number(), number()
end

-- The first charge with whose end at least `need` units have left the window.
local function leaves_last(limit, need)
  local low, sum = text(limit.from), 0
  local function search(high)
    return walk(low, high, 16, function(entry, vector)
      sum = sum + units_in(vector, limit.code)
      return sum >= need and entry
    end)
  end
  local mark = block_end(limit.from)
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

local function is_charged(limit)
  return limit.units > 0
end

-- The first instant at which the charge fits this limit, if nobody else charges: now where it fits.
local function fits_at(limit)
  local allowed = limit.enforced - limit.units - limit.leave
  local at = is_closed(limit) and limit.closed or now
  if used(limit) <= allowed then
    return at
  end
  if limit.sum > allowed then
    local last = leaves_last(limit, limit.sum - allowed)
    at = math.max(at, expiry(limit, last and tonumber(call('ZSCORE', LOG, last)) or now))
  end
  for _, floor in ipairs(state.floors) do
    if floor.name == limit.name and floor.at >= limit.from and floor.used + floor.after > allowed then
      at = math.max(at, expiry(limit, floor.at))
    end
  end
  return at
end

local function never()
  for _, limit in ipairs(limits) do
    if is_charged(limit) and limit.units + limit.leave > limit.enforced then
      return { 'never', limit.index, text(math.max(limit.enforced - limit.leave, 0)) }
    end
  end
end

local function rejected()
  local worst, fits = nil, now
  for _, limit in ipairs(limits) do
    local at = is_charged(limit) and fits_at(limit) or now
    if at > fits then
      worst, fits = limit, at
    end
  end
  if worst then
    local closed = is_closed(worst) and text(worst.closed) or ''
    return { 'rejected', text(clock), worst.index, text(used(worst)), text(remaining(worst)), text(fits), closed }
  end
end

local function granted(word, at)
  local reply = { word, state.epoch, text(state.sequence), text(at) }
  for _, limit in ipairs(limits) do
    if is_charged(limit) then
      reply[#reply + 1] = text(used(limit))
      reply[#reply + 1] = limit.tried and '1' or '0'
      reply[#reply + 1] = limit.disagrees or ''
    end
  end
  return reply
end

-- A limit whose closing has run out without a known reset lets one charge try, and closes again for a minute.
local function try_closed(limit)
  if limit.closed and limit.probing then
    limit.tried = true
    limit.closed = now + 60 * 1000000
    put('closed:' .. limit.name, text(limit.closed) .. ' 1')
  elseif limit.closed then
    limit.closed = nil
    put('closed:' .. limit.name, '')
  end
end

local function compare_rule(limit)
  if limit.other_rule ~= limit.rule then
    limit.disagrees = limit.other_rule or ''
    put('rule:' .. limit.name, limit.rule)
  end
end

local function take(limit, sums)
  sums[code_of(limit)] = limit.units
  advance(limit)
  limit.total = limit.total + limit.units
  limit.used = limit.used + limit.units
  add_to_floors(limit.name, now, limit.units)
  try_closed(limit)
  compare_rule(limit)
  put_limit(limit)
end

local function end_block()
  local last = call('ZREVRANGEBYSCORE', LOG, '(' .. text(now), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if last then
    mark(tonumber(last))
  end
end

local function record()
  local sums = {}
  if not state.epoch or state.server ~= server then
    begin_epoch()
  end
  for _, limit in ipairs(limits) do
    if is_charged(limit) then
      take(limit, sums)
    end
  end
  remove_forgotten(id)
  log(id, now, sums)
  state.drops_floors = true
  state.sequence = state.sequence + 1
  put('sequence', text(state.sequence))
  -- What would slow down every charge is done at each BLOCKth.
  local due = state.sequence % BLOCK == 0
  if due then
    end_block()
  end
  commit(due)
  if due then
    evict(4 * BLOCK)
  end
end

local refusal = objection()
if refusal then
  return refusal
end
local known = knows(id)
if known then
  return granted('repeated', known)
end
refusal = never() or rejected()
if refusal then
  return refusal
end
record()
return granted('granted', now)
