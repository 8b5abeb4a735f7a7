//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
)

// What a library reports of its requests, batches and responses is counted as it says. Of
// those that it says nothing of the server counts what it measures.

// reported hands on what is said of a request or a batch.
func reported(of *host.Request, r host.Report, times ...C.uint64_t) C.uintptr_t {
	for k := range times {
		if k > 0 && times[k] < times[k-1] {
			return errorf(backend.InvalidArg,
				"the times of statistics, start and end of the execution and of the computation in it, are not in order: %v", times)
		}
		r.Times[k] = uint64(times[k])
	}
	of.Report(r)
	return 0
}

//export TRITONBACKEND_ModelInstanceReportStatistics
func TRITONBACKEND_ModelInstanceReportStatistics(h, r C.uintptr_t, success C.uint8_t, start, computeStart, computeEnd, end C.uint64_t,
) C.uintptr_t {
	return instanceOf(h, func(*instance) C.uintptr_t {
		return requestOf(r, func(r *request) C.uintptr_t {
			if success == 0 {
				return reported(r.of, host.Report{Flags: host.ReportFailed})
			}
			return reported(r.of, host.Report{}, start, computeStart, computeEnd, end)
		})
	})
}

//export TRITONBACKEND_ModelInstanceReportBatchStatistics
func TRITONBACKEND_ModelInstanceReportBatchStatistics(h C.uintptr_t, size, start, computeStart, computeEnd, end C.uint64_t,
) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t {
		of := in.latest.Load()
		if of == nil {
			return errorf(backend.InvalidArg, "instance '%s' has not executed a batch yet", in.config.Name)
		}
		return reported(of, host.Report{Flags: host.ReportBatch, Size: uint64(size)}, start, computeStart, computeEnd, end)
	})
}
