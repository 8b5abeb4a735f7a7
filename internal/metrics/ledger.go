package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/ledger"
)

var (
	ledgerHeld = prometheus.NewDesc("neso_ledger_held_bytes",
		"Bytes that the server holds for its clients: inputs, and answers that are not written", []string{"page"}, nil)
	ledgerLimit = prometheus.NewDesc("neso_ledger_limit_bytes", "The most of them that it holds", []string{"page"}, nil)
	ledgerCuts  = prometheus.NewDesc("neso_ledger_cuts_total", "Transfers that were ended or refused for want of room",
		[]string{"page", "reason"}, nil)
)

func collectLedger(ch chan<- prometheus.Metric, l *ledger.Ledger) {
	for p, page := range ledger.PageNames {
		p := ledger.Page(p)
		ch <- prometheus.MustNewConstMetric(ledgerHeld, prometheus.GaugeValue, float64(l.Held(p)), page)
		ch <- prometheus.MustNewConstMetric(ledgerLimit, prometheus.GaugeValue, float64(l.Limit(p)), page)
		for why, reason := range ledger.ReasonNames {
			ch <- prometheus.MustNewConstMetric(ledgerCuts, prometheus.CounterValue, float64(l.Cuts(p, ledger.Reason(why))), page, reason)
		}
	}
}
