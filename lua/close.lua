-- Closes a limit that the upstream reported exhausted, or reopens it. Of two closings the later holds (L18, L19).
--
-- ARGV after the caller's terms: the limit's name; then
--   until    an instant: the reset is known.
--   probing  the reset is unknown: for an hour, then one charge is granted, a probe; each closing that follows a probe
--            lasts twice as long as the last one, up to a day.
--   copied   an instant, and how long the closing lasted: one without a known reset, as another store holds it.
--   reopen   the limit is open again.
-- Reply: 'closed', epoch, sequence, now.
-- Cost: O(1).

local MINUTE = 60 * 1000000
local HOUR = 60 * MINUTE

local name, how = word(), word()
local limit = open_log(ledger).limit_named(name)

if ledger.objection then
  return ledger.objection
end
if not stored then
  open_changes(ledger).empty()
end
if limit then
  local closed, probing = limit.place + CLOSED, limit.place + PROBING
  local last = state[probing] == true and HOUR or state[probing]
  local till, interval
  if how == 'reopen' then
    state[closed], state[probing] = 0, false
  elseif how == 'until' then
    till, interval = number(), false
  elseif how == 'copied' then
    till, interval = number(), math.max(number(), last or 0)
  else
    -- Where the limit is closed for more than a minute, no probe was granted: the request was sent before the limit was
    -- closed, and its refusal is the same as the last.
    local follows_probe = last and state[closed] <= now + MINUTE
    interval = follows_probe and math.min(2 * last, 24 * HOUR) or last or HOUR
    till = now + interval
  end
  if till and till > state[closed] then
    state[closed], state[probing] = till, interval
  end
end
commit(ledger, true)
return { 'closed', state[EPOCH], state[SEQUENCE], now }
