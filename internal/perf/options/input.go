package options

func dataTable() []entry {
	return append(sequenceTable(), []entry{
		{
			"batch-size", "b", "N", input, "default 1",
			number("-b (batch size)", 1, "> 0", func(o *Options) *int { return &o.Batch }),
		},
		{"input-data", "", "zero|random|PATH", input, "a directory with a file for each input, or JSON; repeatable", setInputData},
		{"z", "z", "", old, "deprecated, as --input-data=zero", flag(func(o *Options) *bool { return &o.Zero })},
		{
			"string-length", "", "N", input, "characters of random strings; default 128",
			number("--string-length", 1, "> 0", func(o *Options) *int { return &o.StringLength }),
		},
		{"string-data", "", "TEXT", input, "the text of every string", func(o *Options, s string) error { o.StringData = &s; return nil }},
		{"shape", "", "NAME:D,D,...", input, "the shape of an input, without the batch; repeatable", setShape},
		{
			"shared-memory", "", "none|system", input, "where tensors lie",
			func(o *Options, s string) error {
				if s == "cuda" {
					return usagef("CUDA shared memory is not supported here: this generator has no CUDA runtime. Use --shared-memory=system.")
				}
				return word("--shared-memory", "The available options are 'system', 'cuda', or 'none'.", []string{"none", "system"},
					func(o *Options) *string { return &o.SharedMemory })(o, s)
			},
		},
		{
			"output-shared-memory-size", "", "BYTES", input, "of an output of unknown size; default 102400",
			number("--output-shared-memory-size", 0, ">= 0", func(o *Options) *int { return &o.OutputRegion }),
		},
		{"input-tensor-format", "", "binary|json", input, "of HTTP; default binary", format("--input-tensor-format", func(o *Options) *bool {
			return &o.JSONInput
		})},
		{"output-tensor-format", "", "binary|json", input, "of HTTP; default binary", format("--output-tensor-format", func(o *Options) *bool {
			return &o.JSONOutput
		})},
		{"streaming", "", "", request, "gRPC streams: a request may have any number of responses", flag(func(o *Options) *bool {
			return &o.Streaming
		})},
		{"header", "H", "NAME:VALUE", request, "a header of every request; repeatable", func(o *Options, s string) error {
			o.Headers = append(o.Headers, s)
			return nil
		}},
		{"request-parameter", "", "NAME:VALUE:TYPE", request, "a parameter of every request, TYPE bool, int or string", setParameter},
		{
			"grpc-compression-algorithm", "", "none|gzip|deflate", request, "how requests are compressed",
			word("--grpc-compression-algorithm", "The available options are 'gzip', 'deflate', or 'none'.", []string{"none", "gzip", "deflate"},
				func(o *Options) *string { return &o.Compression }),
		},
	}...)
}

func format(label string, p func(o *Options) *bool) func(*Options, string) error {
	return func(o *Options, s string) error {
		if s != "binary" && s != "json" {
			return usagef("Failed to parse %s. Unsupported type provided: '%s'. The available options are 'binary' or 'json'.", label, s)
		}
		*p(o) = s == "json"
		return nil
	}
}

func sequenceTable() []entry {
	return []entry{
		{
			"num-of-sequences", "", "N", sequence, "sequences at once under a rate; default 4",
			atMost(mostLoad, number("--num-of-sequences", 1, "> 0", func(o *Options) *int { return &o.Sequences })),
		},
		{
			"sequence-length", "", "N", sequence, "requests of a sequence; default 20, or those of the data",
			number("--sequence-length", 0, "> 0", func(o *Options) *int { return &o.SequenceLength }),
		},
		{"sequence-length-variation", "", "PERCENT", sequence, "by which lengths differ; default 20", func(o *Options, s string) error {
			v, err := float(s)
			if err == nil && v < 0 {
				return usagef("Failed to parse --sequence-length-variation. The value must be >= 0.0.")
			}
			o.LengthVariation = v
			return err
		}},
		{"sequence-id-range", "", "START:END", sequence, "correlation ids, END excluded; default from 1 without end", setIDs},
		{
			"serial-sequences", "", "", old, "requests of a sequence always wait for each other",
			nothing("--serial-sequences has no effect: a request of a sequence always waits for the one before it"),
		},
	}
}
