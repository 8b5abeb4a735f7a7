package shm

import (
	"fmt"
	"testing"
)

func BenchmarkPart(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		for _, verb := range []string{"read", "write"} {
			b.Run(fmt.Sprintf("%s/%d", verb, size), func(b *testing.B) {
				r, _ := open(b, map[string]int{"a": size})
				register(b, r, "r", "/a", 0, uint64(size))
				buffer := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					p, err := r.Use("r", 0, uint64(size))
					if err == nil {
						if verb == "read" {
							err = p.Read(buffer)
						} else {
							err = p.Write(buffer)
						}
					}
					if err != nil {
						b.Fatal(err)
					}
					p.Release()
				}
			})
		}
	}
}
