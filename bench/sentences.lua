-- wrk script: POSTs the lines of a file, one after the other, and ends with one line that a program can read.
-- usage: wrk -s sentences.lua URL -- FILE

local bodies, at = {}, 0

function init(args)
  wrk.method = "POST"
  for line in io.lines(args[1]) do bodies[#bodies + 1] = wrk.format(nil, nil, nil, line) end
end

function request()
  at = at % #bodies + 1
  return bodies[at]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    "RESULT requests=%d duration_us=%d p50_us=%d p99_us=%d max_us=%d connect=%d read=%d write=%d status=%d timeout=%d\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect, e.read, e.write, e.status, e.timeout))
end
