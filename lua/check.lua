-- Compares the sums with the log, a bounded number of blocks at a time, then the totals with the sums; corrects what
-- differs, and reports it to the server's log and to the caller. No sum is corrected to less because units are gone: that is
-- a loss, which the next charge finds (L35).
--
-- Reply: 'checked', and for each total or block that was mended a line of words.
-- Cost: O(BLOCKS * BLOCK + n / BLOCK); where a total differs, O(n).

local BLOCKS = 64
local log, META, SUMS = open_log(ledger), KEYS[1], KEYS[5]

local reply = { 'checked' }

local function mended(what)
  reply[#reply + 1] = what
  redis.log(redis.LOG_WARNING, 'ingest ledger: ' .. META .. ': ' .. what)
end

-- Whether a charge of a range has lost its units.
local function lost_units(low, high)
  for _, vectors in log.batches(low, high, 512) do
    for place = 1, #vectors do
      if not vectors[place] then
        return true
      end
    end
  end
end

local is_lost = false

local function check_block(before, last)
  local truth = log.scan_vector('(' .. before, last)
  -- Written while there were fewer limits, it can be the same in another form.
  local written = call('HGET', SUMS, last)
  local sums = written and vector_of(log.add_vector({}, written, 1), log.size)
  if sums ~= truth and lost_units('(' .. before, last) then
    is_lost = true
  elseif sums ~= truth then
    mended('the block up to ' .. last .. ' summed to [' .. (sums or '') .. '], its charges to [' .. truth .. ']')
    call('HSET', SUMS, last, truth)
  end
end

-- The first block is checked with the second: every one but it has a block before it.
local function check_blocks()
  local checked = call('HGET', META, 'checked') or '-inf'
  local marks = call('ZRANGEBYSCORE', KEYS[4], checked, '+inf', 'LIMIT', 0, BLOCKS + 1)
  for place = 2, #marks do
    check_block(marks[place - 1], marks[place])
  end
  call('HSET', META, 'checked', #marks > BLOCKS and marks[#marks] or '-inf')
end

local function check_total(limit)
  local total, head = state[limit.place + TOTAL], state[limit.place + HEAD]
  if log.between(limit.code, head, nil) == total then
    return
  end
  -- The sum of a block that was not compared yet can be the wrong one.
  local low = string.format('%d', head)
  local truth = log.scan(limit.code, low, '+inf')
  if truth < total and lost_units(low, '+inf') then
    is_lost = true
  elseif truth ~= total then
    mended(limit.name .. ' stood at ' .. string.format('%d', total) .. ', its charges sum to ' .. string.format('%d', truth))
    state[limit.place + TOTAL] = truth
  end
end

if ledger.objection then
  return ledger.objection
end
if state[EPOCH] then
  check_blocks()
  for _, limit in ipairs(limits) do
    check_total(limit)
  end
  if is_lost then
    call('HDEL', KEYS[3], '')
    open_changes(ledger).keep_alive()
    redis.log(redis.LOG_WARNING, 'ingest ledger: ' .. META .. ': units of charges in the log are gone')
    return { 'lost', 'behind' }
  end
  if #reply > 1 then
    commit(ledger, true)
  end
end
return reply
