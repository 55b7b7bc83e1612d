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

if objection then
  return objection
end

local function granted(said, at)
  local reply = { said, epoch, text(sequence), text(at) }
  for _, limit in ipairs(limits) do
    if limit.units > 0 then
      reply[#reply + 1] = text(used(limit))
      reply[#reply + 1] = limit.tried and '1' or '0'
      reply[#reply + 1] = limit.disagrees or ''
    end
  end
  return reply
end

-- A limit whose closing has run out without a known reset lets one charge try, and closes again for a minute.
local function take(limit)
  limit.total, limit.head = limit.sum + limit.units, max(limit.head, limit.from)
  limit.used = limit.used + limit.units
  if #floors > 0 then
    add_to_floors(limit.name, now, limit.units)
  end
  limit.tried = limit.probing
  limit.closed = limit.probing and now + 60 * 1000000 or 0
  limit.disagrees = limit.other_rule ~= limit.rule and limit.other_rule or nil
end

-- What would slow down every charge is done at each BLOCKth.
local function end_block()
  local old = open_archive()
  local last = call('ZREVRANGEBYSCORE', LOG, '(' .. text(now), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if last then
    old.mark(tonumber(last))
  end
  old.evict(4 * BLOCK)
end

local function record()
  local sums = {}
  if not epoch or served_by ~= server then
    begin_epoch()
  end
  for _, limit in ipairs(limits) do
    if limit.units > 0 then
      sums[code_of(limit)] = limit.units
      take(limit)
    end
  end
  local vector = vector_of(sums)
  if vector ~= '' then
    call('HSET', UNITS, id, vector)
  end
  newest_at, sequence, drops_floors = now, sequence + 1, true
  local ends_block = sequence % BLOCK == 0
  if ends_block then
    end_block()
  end
  commit(ends_block)
end

-- Why not --------------------------------------------------------------------------------------------------------------

-- The limit that can never hold the charge, by its number.
local function never()
  for _, limit in ipairs(limits) do
    if limit.units > 0 and limit.units + limit.leave > limit.enforced then
      return { 'never', limit.index, text(max(limit.enforced - limit.leave, 0)) }
    end
  end
end

local function fits(limit)
  return limit.units == 0
    or (limit.closed <= now and used(limit) + limit.units + limit.leave <= limit.enforced)
end

local function rejected()
  local old = open_archive()

  -- The first instant at which the charge fits this limit, if nobody else charges: now where it fits.
  local function fits_at(limit)
    return max(limit.closed, old.falls_to(limit, limit.enforced - limit.units - limit.leave))
  end

  local worst, latest = nil, now
  for _, limit in ipairs(limits) do
    local at = limit.units > 0 and fits_at(limit) or now
    if at > latest then
      worst, latest = limit, at
    end
  end
  local closed = worst.closed > now and text(worst.closed) or ''
  return { 'rejected', text(clock), worst.index, text(used(worst)), text(remaining(worst)), text(latest), closed }
end

-- When the id was charged, if it is known. A forgotten one leaves nothing behind.
local function recall()
  local at = knows(id)
  if not at then
    open_archive().remove_forgotten(id)
  end
  return at
end

local fit = true
for _, limit in ipairs(limits) do
  fit = fits(limit) and fit
end
if not fit then
  local known = knows(id)
  return known and granted('repeated', known) or never() or rejected()
end
if call('ZADD', LOG, 'NX', text(now), id) == 0 then
  local known = recall()
  if known then
    return granted('repeated', known)
  end
  call('ZADD', LOG, text(now), id)
end
record()
return granted('granted', now)
