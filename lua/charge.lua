-- Takes units of one or more limits, all or nothing, and records them under an id (L7).
--
-- A sliding window as a log: each charge is a record with its time, and a charge fits where the sum of the records since the window
-- began and its own units are at most the limit. Here the sum is kept beside the log, from its `front` on: a charge moves the front
-- to where the window begins now, subtracts what it passes (`evaluate`), compares, and adds its units and its record.
--
-- KEYS and ARGV 1: as in ledger.lua; then the fields of the limits; then for each of them: units; the most that may be used
-- afterwards; rule in words; how far back its window slides, its parts, its periods (as `counted_from` takes them). Where the
-- account forgets ids, each of its windows follows: back, parts, periods.
-- Reply: an array, or of a grant one text, which Redis answers in less time
--   granted   epoch, sequence, time; of each limit what is used; remarks: 'probes', the place of a limit that this charge probes, from
--             0 on, and how long its last closing lasted; 'differs', the place of a limit, the rule by which it was charged before
--   repeated  of a known id: epoch, sequence and time of its charge; of each limit what is used; fields of limits and units that it
--             holds; 1 if the id lasts, else 0; the time
--   rejected  the report; of each limit what is stored; the place of each limit that falls far enough in a later chunk, from 0 on,
--             what it counts before, the chunk. Nothing was written
-- Cost: one HMGET, one HGET, one HSET. Every 16th charge reads one chunk for each limit, and writes and removes one.

-- The window in a rule; nothing to remark.
local WINDOW, NONE = ' less %d+(.*)', {}

-- Moves a limit to where its window begins, to now if that holds no record; returns what is used: its total, or more by floors (L40).
local function evaluate(limit, rule, from)
  if newest < from or not limit[RULE] then
    limit[TOTAL], limit[FRONT], limit[AHEAD], limit[WHOLE] = 0, now, '', true
  elseif limit[FRONT] <= cleared or limit[RULE] ~= rule and limit[FRONT] > from and match(limit[RULE], WINDOW) ~= match(rule, WINDOW) then
    -- Its front was cleared with the log, or by the other window it may have passed what counts by this one. A torn log has no sum.
    loss = loss or is_torn() and 'torn'
    limit[TOTAL], limit[FRONT], limit[AHEAD], limit[WHOLE] = sum(limit[NUMBER], from), from, '', false
  elseif limit[FRONT] < from then
    expire(limit, from)
  end
  return used_since(limit, from)
end

-- The units of the records ahead, and from when on others follow.
local function units_ahead(limit)
  local ahead, units, from = { unpack_all(limit[AHEAD]) }, 0, limit[FRONT]
  for place = 1, #ahead, 2 do
    units, from = units + ahead[place + 1], ahead[place] + 1
  end
  return units, from
end

-- The chunk with which the units that leave a limit first come to `need`, and how many come before it; nothing where the records
-- ahead suffice, and where it is more than 32,000 records away. Cost: the heads of the chunks before it.
local function chunk_of(limit, need)
  if units_ahead(limit) < need and not limit[WHOLE] then
    -- Reads the rest of its first chunk: what begins before the end of that adds nothing.
    limit[AHEAD] = ''
    expire(limit, limit[FRONT])
  end
  local before, from = units_ahead(limit)
  local batch = 1
  while before < need and not limit[WHOLE] and batch < 2048 do
    local read = chunks_from(from, batch)
    for _, chunk in ipairs(read) do
      local _, first, last, sums = unpack_some(chunk, 3, 0)
      local units = (first >= from or limit[AHEAD] == '') and sums[limit[NUMBER]] or 0
      if before + units >= need then
        return before, chunk
      end
      before, from = before + units, last + 1
    end
    if #read < batch then
      return before, open_chunk()
    end
    batch = 2 * batch
  end
end

local function rejected(asked)
  local known, chunks_needed = {}, {}
  for index = 1, count do
    local limit = limit_sent(index)
    local need = limit[TOTAL] + asked[3 * index - 2] - asked[3 * index - 1]
    if need > 0 and need <= limit[TOTAL] then
      local before, chunk = chunk_of(limit, need)
      if chunk then
        append(chunks_needed, index - 1, before, chunk)
      end
    end
    known[index] = pack(unpack(limit))
  end
  return { 'rejected', report(), known, chunks_needed }
end

-- Adds the charge to a limit, and its floors.
local function take(limit, units)
  limit[TOTAL] = limit[TOTAL] + units
  if limit[WHOLE] then
    -- What is known ends with an instant.
    limit[WHOLE] = #limit[AHEAD] < MOST_KNOWN or now == newest
    limit[AHEAD] = limit[WHOLE] and limit[AHEAD] .. pack(now, units) or limit[AHEAD]
  end
  for place = 3, limit[FLOORS] and #limit[FLOORS] or 0, 3 do
    limit[FLOORS][place] = limit[FLOORS][place] + units
  end
end

offer('charge', false, false, function()
  -- `asked`: of each limit the units, the most that may be used, the rule. A table of `nil` has room for one limit without growing.
  local fits, used, asked = true, { nil }, { nil, nil, nil }
  for index = 1, count do
    local limit = limit_sent(index)
    local units, most, rule, back, part, periods = unpack_all(args[1 + count + index])
    local before = evaluate(limit, rule, counted_from(back, part, periods))
    used[index], asked[3 * index - 2], asked[3 * index - 1], asked[3 * index] = before, units, most, rule
    fits = fits and limit[CLOSED] <= now and before + units <= most
  end
  local known = is_recorded(id) and find_record(id)
  -- The open records become a chunk before this charge, which is later than all of them.
  local is_tidying = #records > MOST_OPEN and now > newest
  if loss or is_tidying and fits and not known and is_torn() then
    return { 'lost' }
  elseif known then
    local held = {}
    for number, taken in pairs(known[UNITS]) do
      append(held, call('HGET', MAIN, 'name:' .. number), taken)
    end
    return { 'repeated', { epoch, sequence, known[AT] }, used, held, known[LASTS] and 1 or 0, now }
  elseif not fits then
    return rejected(asked)
  end
  if newest <= now - keep then
    clear()
  elseif is_tidying then
    -- After every decision: a user who lacks a permission changes nothing. These keep the log short (tidy.lua, log.lua).
    evict()
    merge(2 + 2 * count)
    seal()
  end
  local taken, remarks = { nil }, NONE
  for index = 1, count do
    local limit, units, rule = limits[args[1 + index]], asked[3 * index - 2], asked[3 * index]
    take(limit, units)
    used[index], taken[limit[NUMBER]] = used[index] + units, units
    if limit[RULE] ~= rule and limit[RULE] and limit[RULE] ~= '' then
      remarks = { 'differs', index - 1, limit[RULE], unpack(remarks) }
    end
    limit[RULE] = rule
    -- A limit that opens after a closing without a known reset grants one charge, a probe, and closes again for a minute (L19).
    if limit[PROBING] then
      limit[CLOSED], closing, changes = now + MINUTE, max(closing, now + MINUTE), true
      remarks = { 'probes', index - 1, limit[PROBING], unpack(remarks) }
    end
  end
  newest, sequence = now, sequence + 1
  -- Of few units of the account's first limit alone: as `pack` writes it, in a third of the time.
  local one = count == 1 and #id < 32 and taken[1] and taken[1] < 128 and taken[1]
  local record = one and struct_pack('>BI8Bc0BBB', 207, now, 160 + #id, id, 145, one, 194)
  finish(record or pack(now, id, taken, false))
  return pack('granted', epoch, sequence, now, used, remarks)
end)
