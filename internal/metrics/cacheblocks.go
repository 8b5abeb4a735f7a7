package metrics

const (
	// kvBlocks is the family that TensorRT-LLM's backend, or any Python model,
	// publishes; its label kvKind says which number of blocks a gauge holds.
	kvBlocks = "nv_trt_llm_kv_cache_block_metrics"
	kvKind   = "kv_cache_block_type"
)

// CacheBlocks returns how many blocks of the key-value cache are in use, how many
// there are, and how many tokens a block has. A model that publishes these numbers
// counts alone; for others, such as an ensemble, whatever is published counts. A
// number that nobody publishes is -1.
func (c *Customs) CacheBlocks(model string) (used, most, tokens float64) {
	all := c.Family(kvBlocks)
	own := false
	for i := range all {
		own = own || all[i].Labels["model"] == model
	}
	used, most, tokens = -1, -1, -1
	for i := range all {
		if own && all[i].Labels["model"] != model {
			continue
		}
		switch all[i].Labels[kvKind] {
		case "used":
			used = all[i].Value
		case "max":
			most = all[i].Value
		case "tokens_per":
			tokens = all[i].Value
		}
	}
	return used, most, tokens
}
