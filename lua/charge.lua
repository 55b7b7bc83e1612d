-- Takes units of one or more limits, all or nothing, and records them under an id.
--
-- ARGV after the common ones: the id; for each limit: units, and what must be left free.
-- Reply, the word first:
--   granted   epoch, sequence, the time of the charge; for each limit that is charged: used; then, where there is such a
--             thing to say: 'probes', the number of a closed limit that this charge probes, how long its last closing
--             lasted; 'differs', the number of a limit and the rule by which somebody else charged it.
--   repeated  the same for a known id: 'holds', the number of a limit and the units that the id was charged, where that is
--             not what is asked now. Nothing was written.
--   taken_back  the id is that of a charge that was settled to nothing: it names none any more. Nothing was written.
--   rejected  the time by its own clock, the number of the limit that fits last, used, remaining, the instant at which
--             this charge fits, until when the limit is closed or ''; epoch, sequence, now, when the keys' lives were
--             renewed; for each limit that would be charged: used. Nothing was written.
--   never     the number of the limit, the most that one charge can take. Nothing was written.
-- Cost: O(log n) for n charges in the log, whatever they took; a rejection adds the blocks that must leave first.

local id = word()
for _, limit in ipairs(limits) do
  limit.units = number()
  limit.most = limit.enforced - number()
end

if objection then
  return objection
end
if not stored then
  open_archive().empty()
end

-- Whether it fits ------------------------------------------------------------------------------------------------------

local function rejected()
  for index, limit in ipairs(limits) do
    if limit.units > 0 and limit.units > limit.most then
      return { 'never', index, max(limit.most, 0) }
    end
  end
  local old, worst, latest = open_archive(), nil, now
  for index, limit in ipairs(limits) do
    local at = limit.units > 0 and max(old.closed(limit) or 0, old.falls_to(limit, limit.most - limit.units)) or 0
    if at > latest then
      worst, latest = index, at
    end
  end
  local limit = limits[worst]
  local reply = { 'rejected', clock, worst, limit.used, old.remaining(limit), latest, old.closed(limit) or '' }
  reply[8], reply[9], reply[10], reply[11] = old.contact()
  for _, charged in ipairs(limits) do
    if charged.units > 0 then
      reply[#reply + 1] = charged.used
    end
  end
  return reply
end

local fits, costs = true, false
for _, limit in ipairs(limits) do
  if limit.units > 0 then
    costs = true
    add_up(limit)
    fits = fits and state[limit.place + CLOSED] <= now and limit.used + limit.units <= limit.most
  end
end

-- Whoever opens the archive may find that units were lost.
local known
if objection then
  return objection
elseif not fits then
  known = open_archive().knows(id)
  if objection or not known then
    return objection or rejected()
  end
elseif call('ZADD', LOG, 'NX', text(now), id) == 0 then
  known = open_archive().knows(id)
  if objection then
    return objection
  end
  if not known then
    -- A forgotten one leaves nothing behind.
    open_archive().remove_forgotten(id)
    call('ZADD', LOG, text(now), id)
  end
end

if known then
  local vector, counts = call('HGET', UNITS, id), false
  for _, limit in ipairs(limits) do
    limit.held = units_in(vector, limit.code)
    counts = counts or limit.held > 0
  end
  if costs and not counts then
    return { 'taken_back' }
  end
end

-- Recording ------------------------------------------------------------------------------------------------------------

-- Takes a charge that is in the log already. A limit whose closing has run out without a known reset grants one charge,
-- a probe, and closes again for a minute.
local function take(limit)
  local place = limit.place
  state[place + RULE], state[place + TOTAL], state[place + HEAD] = limit.rule, limit.sum + limit.units, limit.head
  state[place + CLOSED] = state[place + PROBING] and now + 60 * 1000000 or 0
  limit.used = limit.used + limit.units
  if #floors > 0 then
    open_archive().add_to_floors(limit.name, now, limit.units)
  end
end

if not known then
  local sums = {}
  for _, limit in ipairs(limits) do
    if limit.units > 0 then
      sums[limit.code] = limit.units
      take(limit)
    end
  end
  if call('HSET', UNITS, id, vector_of(sums), '', '0') == 2 and stored then
    -- The empty id was gone, and so were all units.
    call('ZREM', LOG, id)
    call('HDEL', UNITS, id, '')
    return { 'lost', 'behind' }
  end
  state[NEWEST], state[SEQUENCE], drops_floors = now, state[SEQUENCE] + 1, true
  commit(false)
  -- What would slow down every charge is done at each BLOCKth. Where a permission lacks for that, the charge is whole.
  if state[SEQUENCE] % BLOCK == 0 then
    open_archive().end_block()
    commit(true)
  end
end

local reply = { known and 'repeated' or 'granted', state[EPOCH], state[SEQUENCE], known or now }
for _, limit in ipairs(limits) do
  if limit.units > 0 then
    reply[#reply + 1] = limit.used
  end
end

for index, limit in ipairs(limits) do
  if limit.held and limit.held ~= limit.units then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'holds', index, limit.held
  end
  if limit.units > 0 and not known then
    local interval = state[limit.place + PROBING]
    if interval then
      interval = interval == true and 60 * 60 * 1000000 or interval
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'probes', index, text(interval)
    end
    if limit.other_rule and limit.other_rule ~= '' and limit.other_rule ~= limit.rule then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'differs', index, limit.other_rule
    end
  end
end
return reply
