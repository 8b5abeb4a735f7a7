package metrics

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	buildInfo  = prometheus.NewDesc("neso_build_info", "Always 1; the label says which version runs", []string{"version"}, nil)
	listenerUp = prometheus.NewDesc("neso_listener_up", "Whether the listener accepts the connections that the watchdog makes",
		[]string{"listener"}, nil)
	refused = prometheus.NewDesc("neso_refused_requests_total", "Requests that were refused for security, by reason", []string{"reason"},
		nil)
	droppedTraces = prometheus.NewDesc("neso_traces_dropped_total", "Traces, or with a collector spans, that could not be exported", nil, nil)
	pinnedTotal   = prometheus.NewDesc("nv_pinned_memory_pool_total_bytes", "Pinned memory pool size, in bytes", nil, nil)
	pinnedUsed    = prometheus.NewDesc("nv_pinned_memory_pool_used_bytes", "Pinned memory pool in use, in bytes", nil, nil)
	cpuUse        = prometheus.NewDesc("nv_cpu_utilization", "Busy fraction of the machine's CPUs, 0 to 1", nil, nil)
	memoryTotal   = prometheus.NewDesc("nv_cpu_memory_total_bytes", "Memory of the machine, in bytes", nil, nil)
	resourceLimit = prometheus.NewDesc("neso_rate_limit_resource_units",
		"Units of a resource of the rate limiter, by device; all for one that devices share", []string{"resource", "device"}, nil)
	resourceUsed = prometheus.NewDesc("neso_rate_limit_resource_used_units", "Units that instances hold", []string{"resource", "device"}, nil)
	memoryUsed   = prometheus.NewDesc("nv_cpu_memory_used_bytes", "Memory of the machine in use, in bytes", nil, nil)
)

func (m *Metrics) collectServer(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(buildInfo, 1, m.options.ServerVersion)
	// Without a GPU there is no pinned memory, and dashboards expect the names.
	gauge(pinnedTotal, 0)
	gauge(pinnedUsed, 0)
	if m.options.Listeners != nil {
		for name, stuck := range m.options.Listeners() {
			up := 1.0
			if stuck {
				up = 0
			}
			gauge(listenerUp, up, name)
		}
	}
	if m.options.DroppedTraces != nil {
		ch <- prometheus.MustNewConstMetric(droppedTraces, prometheus.CounterValue, float64(m.options.DroppedTraces()))
	}
	if m.options.Resources != nil {
		for _, u := range m.options.Resources() {
			device := "all"
			if u.Device >= 0 {
				device = strconv.Itoa(u.Device)
			}
			gauge(resourceLimit, float64(u.Limit), valid(u.Resource), device)
			gauge(resourceUsed, float64(u.Used), valid(u.Resource), device)
		}
	}
	if m.cpu == nil {
		return
	}
	if busy, ok := m.cpu.busy(); ok {
		gauge(cpuUse, busy)
	}
	if total, available, ok := memory(); ok {
		gauge(memoryTotal, total)
		gauge(memoryUsed, total-available)
	}
}

// cpuSampler measures the busy fraction between scrapes.
type cpuSampler struct {
	mu                  sync.Mutex
	at                  time.Time
	lastBusy, lastTotal float64
	fraction            float64
}

func newCPUSampler() *cpuSampler {
	s := &cpuSampler{at: time.Now()}
	s.lastBusy, s.lastTotal, _ = cpuTimes()
	return s
}

// minSample keeps two scrapers from seeing the noise of each other's intervals.
const minSample = 500 * time.Millisecond

func (s *cpuSampler) busy() (float64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy, total, ok := cpuTimes()
	if !ok {
		return 0, false
	}
	if now := time.Now(); now.Sub(s.at) >= minSample && total > s.lastTotal {
		s.fraction = (busy - s.lastBusy) / (total - s.lastTotal)
		s.at, s.lastBusy, s.lastTotal = now, busy, total
	}
	return s.fraction, true
}

// cpuTimes reads the first line of /proc/stat; elsewhere than on Linux there is
// none.
func cpuTimes() (busy, total float64, ok bool) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) < 6 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, text := range fields[1:min(len(fields), 9)] {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, false
		}
		total += v
		if i != 3 && i != 4 { // idle, iowait
			busy += v
		}
	}
	return busy, total, true
}

// memory reads MemTotal and MemAvailable, in bytes.
func memory() (total, available float64, ok bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			total, _ = strconv.ParseFloat(fields[1], 64)
		case "MemAvailable:":
			available, _ = strconv.ParseFloat(fields[1], 64)
			return total * 1024, available * 1024, true
		}
	}
	return 0, 0, false
}
