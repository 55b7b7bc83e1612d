-- Compares the sums with the log, a bounded number of blocks at a time, then the totals with the sums; mends what
-- differs, and says so in the server's log and to the caller. Nothing is mended to less because units are gone: that is a
-- loss, which the next charge finds.
--
-- Reply: 'checked', and for each total or block that was mended a line of words.
-- Cost: O(BLOCKS * BLOCK + n / BLOCK).

local BLOCKS = 64
local old = open_archive()

local reply = { 'checked' }

local function mended(what)
  reply[#reply + 1] = what
  redis.log(redis.LOG_WARNING, 'ingest ledger: ' .. META .. ': ' .. what)
end

-- Whether a charge of a range has lost its units.
local function lost_units(low, high)
  return old.walk(low, high, 512, function(_, vector)
    return not vector
  end)
end

local is_lost = false

local function check_block(before, last)
  local truth = vector_of(old.scan_vector('(' .. before, last))
  local sums = call('HGET', SUMS, last)
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
  local marks = call('ZRANGEBYSCORE', MARKS, checked, '+inf', 'LIMIT', 0, BLOCKS + 1)
  for place = 2, #marks do
    check_block(marks[place - 1], marks[place])
  end
  call('HSET', META, 'checked', #marks > BLOCKS and marks[#marks] or '-inf')
end

local function check_total(limit)
  local total = state[limit.place + TOTAL]
  local truth = old.between(limit.code, state[limit.place + HEAD], nil)
  if truth < total and lost_units(text(state[limit.place + HEAD]), '+inf') then
    is_lost = true
  elseif truth ~= total then
    mended(limit.name .. ' stood at ' .. text(total) .. ', its charges sum to ' .. text(truth))
    state[limit.place + TOTAL] = truth
  end
end

if objection then
  return objection
end
if state[EPOCH] then
  check_blocks()
  for _, limit in ipairs(limits) do
    check_total(limit)
  end
  if is_lost then
    call('HDEL', UNITS, '')
    redis.log(redis.LOG_WARNING, 'ingest ledger: ' .. META .. ': units of charges in the log are gone')
    return { 'lost', 'behind' }
  end
  if #reply > 1 then
    commit(false)
  end
end
return reply
