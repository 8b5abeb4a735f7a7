package httpapi

import (
	"math"
	"net/http"
	"strconv"
)

// Load balancers that follow ORCA (Open Request Cost Aggregation) ask for the
// load of the server in a header of a generate request.
const (
	headerLoadFormat = "Endpoint-Load-Metrics-Format"
	headerLoad       = "Endpoint-Load-Metrics"
)

// reportLoad adds the load to the head of a reply, in the format that the
// request asks for: "json" or "text". Where no model says how full its cache is,
// there is nothing to add.
func (s *Server) reportLoad(h http.Header, r *http.Request, model string) {
	format := r.Header[headerLoadFormat]
	if len(format) == 0 || format[0] != "json" && format[0] != "text" {
		return
	}
	used, most, tokens := s.o.Customs.CacheBlocks(model)
	capacity := most * tokens
	if !(used >= 0 && most >= 0 && tokens >= 0 && capacity < 1<<63) { // NaN too
		return
	}
	utilization := 0.0
	if most > 0 {
		utilization = used / most
	}
	var b []byte
	if format[0] == "json" {
		b = append(b, `JSON {"named_metrics":{"kv_cache_utilization":`...)
		b = strconv.AppendFloat(b, utilization, 'g', -1, 64)
		if utilization == math.Trunc(utilization) && utilization < 1e15 {
			b = append(b, ".0"...) // a double, as the peer writes it
		}
		b = append(b, `,"max_token_capacity":`...)
		b = append(strconv.AppendUint(b, uint64(capacity), 10), "}}"...)
	} else {
		b = append(b, "TEXT named_metrics.kv_cache_utilization="...)
		b = strconv.AppendFloat(b, utilization, 'f', 6, 64)
		b = append(b, ", named_metrics.max_token_capacity="...)
		b = strconv.AppendUint(b, uint64(capacity), 10)
	}
	h[headerLoad] = []string{string(b)}
}
