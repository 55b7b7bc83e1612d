-- Changes what was charged, or what is known of it: settles, absorbs and closes.
-- KEYS and ARGV 1: as in ledger.lua; then the fields of the limits.
-- Cost of each record: one chunk is read and written.

-- Adds to what a limit counts at an instant. What is before its front may count or not: the limit is then summed again (`recount`).
local function add(limit, at, units)
  local _, after = units_ahead(limit)
  limit[FRONT] = at >= limit[FRONT] and limit[FRONT] or 0
  limit[TOTAL], limit[AHEAD], limit[WHOLE] = limit[TOTAL] + units, at >= after and limit[AHEAD] or '', false
  local floors = limit[FLOORS] or {}
  for place = 1, #floors, 3 do
    floors[place + 2] = at > floors[place] and max(floors[place + 2] + units, 0) or floors[place + 2]
  end
end

-- Writes the records of a piece that changed. Open ones stay open if they share the newest instant, or are few.
local function rewrite(list, chunk)
  if chunk then
    remove_chunk(chunk)
    return write_chunks(list)
  end
  local older, left, last = {}, {}, list[#list][AT]
  for _, record in ipairs(list) do
    append(record[AT] < last and older or left, record)
  end
  records = packed(list, 1, #list)
  if #records > MOST_OPEN and older[1] then
    records = packed(older, 1, #older)
    seal()
    rewrite(left)
  end
end

-- Writes what an operation changed; returns its reply. `intact`: 0 where floors were needed.
local function amended(intact)
  recount()
  finish()
  return { 'recorded', epoch, sequence, now, intact or 1 }
end

-- Adds a record that came from elsewhere.
local function insert(at, id, units, how)
  local list, chunk = piece_at(at)
  local place = #list + 1
  while place > 1 and list[place - 1][AT] > at do
    place = place - 1
  end
  table.insert(list, place, { at, id, units, how })
  newest = max(newest, at)
  rewrite(list, chunk)
  if chunk then
    call('HSET', IDS, id, pack(at))
  end
end

-- Sets the true cost of a charge, at the charge's own time, even beyond a limit (L14). An unknown id is recorded as settled, now:
-- the charge that arrives later is then not counted (L15). Nothing changes what was released.
--
-- ARGV then: whether it is a release; whether to name limits that were not sent; an array of the units of each limit.
-- Reply: 'recorded', as above; or 'others' and the fields of limits that were not sent and that the id took from. Then nothing was
-- written. What it took of limits that are neither sent nor asked for stays.
offer('settle', true, false, function()
  local releases, asks, truth = unpack_all(args[2 + count])
  local record, list, chunk = find_record(id)
  if record and record[LASTS] == 'released' then
    return { 'recorded', epoch, sequence, now, 1 }
  end
  local at, units = record and record[AT] or now, record and record[UNITS] or {}
  local held, others = {}, { 'others' }
  for number, taken in pairs(units) do
    held[call('HGET', MAIN, 'name:' .. number)] = taken
  end
  for index = 1, count do
    local field = args[1 + index]
    local change = truth[index] - (held[field] or 0)
    if change ~= 0 then
      local limit = limit_sent(index)
      add(limit, at, change)
      units[limit[NUMBER]] = truth[index] > 0 and truth[index] or nil
    end
    held[field] = nil
  end
  for field in pairs(held) do
    append(others, field)
  end
  if asks and others[2] then
    return others
  elseif record then
    record[LASTS] = releases and 'released' or record[LASTS]
    rewrite(list, chunk)
  else
    insert(at, id, units, releases and 'released' or 'told')
  end
  sequence = sequence + STRIDE
  return amended()
end)

-- Begins with an empty log where a part of it is gone. What the totals and the floors said becomes one floor for each limit, since
-- the machines send again what they counted.
local function salvage()
  for number = 1, size do
    local limit = limit_numbered(number)
    local used = used_since(limit, 0)
    limit[TOTAL], limit[FRONT], limit[AHEAD], limit[WHOLE] = 0, now, '', true
    limit[FLOORS] = used > 0 and { newest, used, 0 }
  end
  floored = newest
  clear()
end

-- Whether all survived that the caller has seen, through every epoch that ended since (L41).
local function is_intact()
  if loss == 'torn' or sequence < seen_sequence or seen_newest ~= '' and not is_recorded(seen_newest) then
    return false
  end
  local over, found = call('HGET', MAIN, 'epochs'), epoch == seen_epoch
  local epochs = not found and over and { unpack_all(over) } or {}
  for place = 1, #epochs, 2 do
    found = found or epochs[place] == seen_epoch
    if found and epochs[place + 1] < seen_sequence then
      return false
    end
  end
  return found
end

local function set_floor(limit, at, used)
  local floors = limit[FLOORS] or {}
  for place = 1, #floors, 3 do
    if floors[place] == at and floors[place + 1] >= used then
      return
    end
  end
  append(floors, at, used, sum(limit[NUMBER], at + 1))
  limit[FLOORS], floored, changes = floors, max(floored, at), true
end

-- Adds charges that were made elsewhere at their own times, once, even beyond a limit (L17); and floors (L40).
--
-- ARGV then: whether it recovers, and an array of floors: the place of a limit, time, units, one after another; for each charge:
-- id, time, an array of places of limits and units. A caller that was told of a loss recovers: its charges are added whatever was
-- lost, and an epoch begins unless another machine has begun one (L36). What survives is a beginning of the history: where it reaches the
-- sequence that the caller has seen and holds its newest charge, floors are not needed (L41). Such a caller sends its floors first
-- and its newest charge last.
-- Reply: 'recorded', epoch, sequence, time, 1 where floors were not needed, else 0.
offer('absorb', true, true, function()
  local recovers, floors = unpack_all(args[2 + count])
  if loss and not recovers then
    return { 'lost' }
  end
  local intact = recovers and is_intact()
  if loss == 'torn' then
    salvage()
  end
  if epoch and (loss == 'torn' or loss == 'behind') then
    end_epoch(0)
  end
  for place = 3 + count, #args do
    local id, made, cost = unpack_all(args[place])
    if made > now - keep and not find_record(id) then
      local at, units = min(made, now), {}
      for which = 1, #cost, 2 do
        local limit = limit_sent(cost[which])
        units[limit[NUMBER]] = cost[which + 1]
        add(limit, at, cost[which + 1])
      end
      insert(at, id, units, cost[1] and 'told' or 'released')
    end
  end
  for place = 1, intact and 0 or #floors, 3 do
    set_floor(limit_sent(floors[place]), min(floors[place + 1], now), floors[place + 2])
  end
  -- The ledger's time is after every floor (L4).
  newest = floored > 0 and max(newest, floored + 1) or newest
  sequence = sequence + ((#args > 2 + count or floors[1]) and STRIDE or 0)
  return amended(intact and 1 or 0)
end)

-- Closes a limit that the upstream reported exhausted, or reopens it. Of two closings the later holds (L18, L19).
--
-- ARGV then: 'until', an instant, and how long the closing lasted, where another store holds one without a known reset; 'probing',
-- where the reset is unknown; or 'reopen'. Reply: 'recorded', as above.
offer('close', true, false, function()
  local limit, how, till, interval = limit_sent(1), unpack_all(args[2 + count])
  local last = limit[PROBING]
  if how == 'reopen' then
    limit[CLOSED], limit[PROBING], till = 0, false, 0
  elseif how == 'probing' then
    -- Closed for more than a minute, the limit granted no probe: the request was sent before, and its refusal is the same as the last.
    interval = not last and HOUR or limit[CLOSED] > now + MINUTE and last or min(2 * last, DAY)
    till = now + interval
  elseif interval then
    interval = max(interval, last or 0)
  end
  if till > limit[CLOSED] then
    limit[CLOSED], limit[PROBING], closing = till, interval or false, max(closing, till)
  end
  renews = true
  return amended()
end)
