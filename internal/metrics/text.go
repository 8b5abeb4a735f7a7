package metrics

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// ServeHTTP answers GET /metrics; any other path is 200 with no body, any
// other method 405, as scrapers of Triton find it.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const text = "text/plain; charset=utf-8"
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, `{"error":"Method Not Allowed"}`) // the client is gone
		return
	case strings.TrimSuffix(r.URL.Path, "/") != "/metrics":
		w.Header().Set("Content-Type", text)
		return
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", text)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes()) // the scraper is gone
}

// Write prints all metrics in the Prometheus text format. It is not expfmt's
// printer: that writes counters from a million on as 1e+06, and scripts made
// for Triton read digits.
func (m *Metrics) Write(w io.Writer) error {
	families, err := m.registry.Gather()
	if err != nil && len(families) == 0 {
		return err
	}
	var b []byte
	for _, f := range families {
		if len(f.GetMetric()) == 0 {
			continue
		}
		b = append(b, "# HELP "...)
		b = append(b, f.GetName()...)
		b = append(b, ' ')
		b = append(b, helpEscaper.Replace(f.GetHelp())...)
		b = append(b, "\n# TYPE "...)
		b = append(b, f.GetName()...)
		b = append(b, ' ')
		b = append(b, strings.ToLower(f.GetType().String())...)
		b = append(b, '\n')
		for _, metric := range f.GetMetric() {
			b = appendMetric(b, f, metric)
		}
	}
	_, err = w.Write(b)
	return err
}

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func appendMetric(b []byte, f *dto.MetricFamily, m *dto.Metric) []byte {
	name := f.GetName()
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		return appendSample(b, name, m, "", "", m.GetCounter().GetValue())
	case dto.MetricType_GAUGE:
		return appendSample(b, name, m, "", "", m.GetGauge().GetValue())
	case dto.MetricType_SUMMARY:
		s := m.GetSummary()
		b = appendSample(b, name+"_count", m, "", "", float64(s.GetSampleCount()))
		b = appendSample(b, name+"_sum", m, "", "", s.GetSampleSum())
		for _, q := range s.GetQuantile() {
			b = appendSample(b, name, m, "quantile", formatValue(q.GetQuantile()), q.GetValue())
		}
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		h := m.GetHistogram()
		b = appendSample(b, name+"_count", m, "", "", float64(h.GetSampleCount()))
		b = appendSample(b, name+"_sum", m, "", "", h.GetSampleSum())
		for _, bucket := range h.GetBucket() {
			b = appendSample(b, name+"_bucket", m, "le", formatValue(bucket.GetUpperBound()), float64(bucket.GetCumulativeCount()))
		}
		b = appendSample(b, name+"_bucket", m, "le", "+Inf", float64(h.GetSampleCount()))
	case dto.MetricType_UNTYPED:
		return appendSample(b, name, m, "", "", m.GetUntyped().GetValue())
	}
	return b
}

func appendSample(b []byte, name string, m *dto.Metric, extra, extraValue string, v float64) []byte {
	b = append(b, name...)
	open := byte('{')
	label := func(k, v string) {
		b = append(b, open)
		b = append(b, k...)
		b = append(b, '=', '"')
		b = append(b, labelEscaper.Replace(v)...)
		b = append(b, '"')
		open = ','
	}
	for _, l := range m.GetLabel() {
		label(l.GetName(), l.GetValue())
	}
	if extra != "" {
		label(extra, extraValue)
	}
	if open == ',' {
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = append(b, formatValue(v)...)
	return append(b, '\n')
}

// formatValue prints 16 digits, as the peer does: whole numbers below 1e16 have neither
// a decimal point nor an exponent.
func formatValue(v float64) string {
	switch {
	case math.IsNaN(v):
		return "Nan"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	default:
		return strconv.FormatFloat(v, 'g', 16, 64)
	}
}
