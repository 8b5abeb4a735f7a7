module github.com/nesoserve/neso

go 1.26

tool google.golang.org/protobuf/cmd/protoc-gen-go

require google.golang.org/protobuf v1.36.12

require go.yaml.in/yaml/v3 v3.0.6 // indirect
