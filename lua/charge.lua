-- Takes units of one or more limits, all or nothing, and records them under an id (L7).
--
-- ARGV: the caller's terms, which hold what is charged.
-- Reply, the word first:
--   granted   epoch, sequence, the time of the charge; for each limit that is charged: used; then, when there is such a
--             thing to say: 'probes', the number of a closed limit that this charge probes, how long its last closing
--             lasted; 'differs', the number of a limit and the rule by which another machine charged it.
--   repeated  the same for a known id: 'holds', the number of a limit and the units that the id was charged, when that is
--             not what is requested now; 'holds_other', the name of a limit that was not sent, and units. Nothing was
--             written.
--   rejected  the time by its own clock, the number of the limit that fits last, used, remaining, the instant at which
--             this charge fits, until when the limit is closed or ''; epoch, sequence, now, when the keys' lives were
--             renewed; for each limit that would be charged: used. Nothing was written.
--   never     the number of the limit, the most that one charge can take. Nothing was written.
-- Cost: O(log n) for n charges in the log, whatever they took and however many limits the account has; a rejection adds the
-- blocks that must leave first.

local LOG, UNITS = KEYS[2], KEYS[3]
local at = string.format('%d', now)

if ledger.objection then
  return ledger.objection
end
if not stored then
  open_changes(ledger).empty()
end

-- Whether it fits ------------------------------------------------------------------------------------------------------

local fits = true
for index = 1, count do
  local limit = limits[index]
  local units = limit.units
  if units > 0 then
    add_up(ledger, limit)
    fits = fits and state[limit.place + CLOSED] <= now and limit.used + units <= limit.most
  end
end

-- Opening the log may find that units were lost.
local known
-- Whether the log began again.
local is_new = false
if ledger.objection then
  return ledger.objection
elseif not fits then
  known = open_log(ledger).charged_at(id)
  if ledger.objection then
    return ledger.objection
  elseif not known then
    for index, limit in ipairs(limits) do
      if limit.units > 0 and limit.units > limit.most then
        return { 'never', index, math.max(limit.most, 0) }
      end
    end
    local forecast, worst, latest = open_forecast(ledger), nil, now
    for index, limit in ipairs(limits) do
      local at = limit.units > 0
          and math.max(forecast.closed(limit) or 0, forecast.falls_to(limit, limit.most - limit.units))
        or 0
      if at > latest then
        worst, latest = index, at
      end
    end
    local limit = limits[worst]
    local reply =
      { 'rejected', clock, worst, limit.used, forecast.remaining(limit), latest, forecast.closed(limit) or '' }
    reply[8], reply[9], reply[10], reply[11] = forecast.position()
    for _, charged in ipairs(limits) do
      if charged.units > 0 then
        reply[#reply + 1] = charged.used
      end
    end
    return reply
  end
elseif call('ZADD', LOG, 'NX', at, id) == 0 then
  known = open_log(ledger).charged_at(id)
  if ledger.objection then
    return ledger.objection
  end
  if not known then
    -- A forgotten one leaves nothing behind.
    open_changes(ledger).remove_forgotten(id)
    call('ZADD', LOG, at, id)
    is_new = true
  end
end

local others
if known then
  local vector = call('HGET', UNITS, id)
  for _, limit in ipairs(limits) do
    limit.held = units_in(vector, limit.code)
  end
  others = open_log(ledger).others(vector)
end

-- Recording ------------------------------------------------------------------------------------------------------------

if not known then
  local sums = { nil }
  for index = 1, count do
    local limit = limits[index]
    local units, place = limit.units, limit.place
    if units > 0 then
      sums[limit.code] = units
      state[place + RULE], state[place + TOTAL] = limit.rule, limit.sum + units
      -- A limit whose closing has run out without a known reset grants one charge, a probe, and closes again for a
      -- minute (L19).
      if state[place + PROBING] then
        state[place + CLOSED] = now + 60 * 1000000
      end
      limit.used = limit.used + units
      if ledger.floors[limit.name] then
        open_changes(ledger).add_to_floors(limit.name, now, units)
      end
    end
  end
  local vector = vector_of(sums, state.apart and state.apart.size or (#state - FIRST_PLACE + 1) / NEXT_PLACE)
  if call('HSET', UNITS, id, vector, '', '0') == 2 and stored then
    -- The empty id was gone, and so were all units. The recovery empties the log.
    call('HDEL', UNITS, id, '')
    return { 'lost', 'behind' }
  end
  state[NEWEST], state[SEQUENCE], ledger.drops_floors = now, state[SEQUENCE] + 1, true
  commit(ledger, is_new)
  -- What would slow down every charge is done at each BLOCKth. When a permission lacks for that, the charge is whole.
  if state[SEQUENCE] % BLOCK == 0 then
    open_changes(ledger).end_block()
    commit(ledger, true)
  end
end

-- With room for two limits.
local reply = { known and 'repeated' or 'granted', state[EPOCH], state[SEQUENCE], known or now, nil, nil }
for index = 1, count do
  if limits[index].units > 0 then
    reply[#reply + 1] = limits[index].used
  end
end
for place = 1, others and #others or 0, 2 do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'holds_other', others[place], others[place + 1]
end
for index = 1, count do
  local limit = limits[index]
  if limit.held and limit.held ~= limit.units then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'holds', index, limit.held
  end
  if limit.units > 0 and not known then
    local interval = state[limit.place + PROBING]
    if interval then
      interval = interval == true and 60 * 60 * 1000000 or interval
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'probes', index, string.format('%d', interval)
    end
    if limit.other_rule and limit.other_rule ~= '' and limit.other_rule ~= limit.rule then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = 'differs', index, limit.other_rule
    end
  end
end
return reply
