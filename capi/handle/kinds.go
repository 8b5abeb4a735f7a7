package handle

// The kinds of objects, one for each opaque type of the C interfaces.
const (
	Error uint8 = iota + 1
	Parameter
	Message
	BufferAttributes
	Metrics
	Allocator
	Trace
	Request
	Response
	ServerOptions
	Server
	MetricFamily
	Metric
	MetricArgs
)

// Those of the interfaces for plug-ins begin here.
const (
	BackendKinds   uint8 = 32
	RepoAgentKinds uint8 = 64
	CacheKinds     uint8 = 80 // up to 95
)
