-- The log: chunks, oldest first, then the open records. No chunk shares an instant with another or with the open records.
-- Cost: what a function reads is one chunk, unless its comment says more.

-- The chunks that end at an instant or later, at most so many. Without `main`, what is in the log means nothing.
local function chunks_from(from, most)
  return chunks > 0 and call('ZRANGEBYSCORE', LOG, from, '+inf', 'LIMIT', 0, most) or {}
end

-- The array of the open records, as a chunk holds it.
local function open_array()
  return '\221' .. struct_pack('>I4', opened) .. records
end

-- The open records in the form of a chunk without sums.
local function open_chunk()
  return pack(0, newest, {}) .. open_array()
end

-- The records of the chunk that holds an instant, and the chunk; or the open records alone.
local function piece_at(at)
  local chunk = chunks_from(at, 1)[1]
  return select(4, unpack_all(chunk or open_chunk())), chunk
end

-- Subtracts from a limit's total what a list of records holds from its front until `from`; what is left of the list is ahead then.
-- Returns whether anything is left.
local function pass(limit, list, from)
  local left = {}
  for _, record in ipairs(list) do
    local at, units = record[AT], record[UNITS][limit[NUMBER]] or 0
    if at >= from and units > 0 then
      left[#left + 1], left[#left + 2] = at, units
    elseif at >= limit[FRONT] and at < from then
      limit[TOTAL] = limit[TOTAL] - units
    end
  end
  limit[FRONT], limit[AHEAD] = left[1] or from, left[1] and #left <= 4 * BATCH and pack(unpack(left)) or ''
  return left[1] ~= nil
end

-- Moves the front of a limit to an instant, or to its first record after that, and subtracts what it passes from the total.
-- Cost: the heads of the chunks that it passes.
local function expire(limit, from)
  local known, offset, at, units = limit[AHEAD], 0, nil, nil
  while known ~= '' and offset >= 0 do
    local start = offset
    offset, at, units = unpack_some(known, 2, offset)
    if at >= from then
      limit[FRONT], limit[AHEAD] = at, sub(known, start + 1)
      return
    end
    limit[TOTAL], limit[FRONT] = limit[TOTAL] - units, at + 1
  end
  limit[AHEAD] = ''
  local most = 1
  while not limit[WHOLE] do
    local read = chunks_from(limit[FRONT], most)
    for _, chunk in ipairs(read) do
      local _, first, last, sums = unpack_some(chunk, 3, 0)
      if last < from and first >= limit[FRONT] then
        limit[TOTAL] = limit[TOTAL] - (sums[limit[NUMBER]] or 0)
      elseif pass(limit, select(4, unpack_all(chunk)), from) then
        return
      end
      limit[FRONT] = last + 1
      if last >= from then
        return
      end
    end
    if #read < most then
      limit[WHOLE] = not pass(limit, unpack_all(open_array()), from) or limit[AHEAD] ~= ''
      return
    end
    most = 64
  end
  limit[FRONT] = from
end

-- The units of a limit from an instant on. Cost: the heads of all chunks since then.
local function sum(number, from)
  local counted = { number, '', 0, from, '', false }
  expire(counted, math.huge)
  return -counted[TOTAL]
end

-- Sums the limits again of which the past changed: from the beginning of the longest window.
local function recount()
  for _, limit in pairs(limits) do
    if limit[FRONT] == 0 then
      limit[FRONT] = max(cleared + 1, now - keep)
      limit[TOTAL], limit[AHEAD], limit[WHOLE] = sum(limit[NUMBER], limit[FRONT]), '', false
    end
  end
end

-- Writes records as chunks. `array`: how they are stored, where they did not change.
local function write_chunks(list, array)
  local start = 1
  renews = renews or chunks == 0
  while start <= #list do
    local stop = #list - start >= 2 * CHUNK and start + CHUNK - 1 or #list
    while list[stop + 1] and list[stop + 1][AT] == list[stop][AT] do
      stop = stop + 1
    end
    local part, sums = {}, {}
    for place = start, stop do
      part[#part + 1] = list[place]
      for number, units in pairs(list[place][UNITS]) do
        sums[number] = (sums[number] or 0) + units
      end
    end
    array = #part == #list and array or pack(part)
    call('ZADD', LOG, list[stop][AT], pack(list[start][AT], list[stop][AT], sums) .. array)
    chunks, start = chunks + 1, stop + 1
  end
  changes = true
end

local function remove_chunk(chunk)
  call('ZREM', LOG, chunk)
  chunks, changes = chunks - 1, true
end

-- Forgets the ids of records, except those that later records have.
local function forget(list)
  local ids, gone = {}, {}
  for place, record in ipairs(list) do
    ids[place] = record[ID]
  end
  for place, at in ipairs(call_with('HMGET', IDS, ids)) do
    if at and unpack_all(at) == list[place][AT] then
      gone[#gone + 1] = ids[place]
    end
  end
  call_with('HDEL', IDS, gone)
end

-- Whether the id of a record is remembered (L11).
local function is_remembered(record)
  return record[AT] >= remembered_from or record[LASTS] and record[AT] > now - keep
end

-- Makes records a chunk that were open, and finds their ids there from then on.
local function seal(list, array)
  local ids = { '', '0' }
  -- Without `main`, what is left of the other keys means nothing.
  local _ = chunks == 0 and call('DEL', LOG, IDS)
  for _, record in ipairs(list) do
    if is_remembered(record) then
      append(ids, record[ID], pack(record[AT]))
    end
  end
  call_with('HSET', IDS, ids)
  write_chunks(list, array)
end

-- Forgets all records.
local function clear()
  call('DEL', LOG, IDS)
  opened, records, chunks, merged, cleared, changes = 0, '', 0, 0, newest, true
end

-- The newest record of an id that is remembered, the records of its piece, and the chunk; no chunk where it is open.
local function find_record(id)
  local function remembered(list, chunk)
    for place = #list, 1, -1 do
      local record = list[place]
      if record[ID] == id and record[AT] > forgotten and is_remembered(record) then
        return record, list, chunk
      end
    end
  end
  local record, list = remembered(find(records, pack(id), 1, true) and unpack_all(open_array()) or {})
  local at = not record and chunks > 0 and call('HGET', IDS, id)
  if not at then
    return record, list
  end
  return remembered(piece_at(unpack_all(at)))
end
