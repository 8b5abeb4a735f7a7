module github.com/nesoserve/neso

go 1.26.0

tool google.golang.org/protobuf/cmd/protoc-gen-go

require (
	github.com/prometheus/client_golang v1.23.2
	github.com/prometheus/client_model v0.6.2
	github.com/prometheus/common v0.67.5
	google.golang.org/protobuf v1.36.12
)
