// Package fil serves forests of decision trees (XGBoost, LightGBM, scikit-learn,
// treelite checkpoints) with the treelite library, which is opened at run time
// through its C API.
//
// Open model.go first, then execute.go. All instances of a version share one
// forest, which any number of threads read. The library computes on the thread
// that calls it; a large batch is divided among goroutines, because OpenMP would
// keep a pool of threads for every thread of Go's. The C border is api.go and
// forest.go; format.go tells the files apart; flat.go has the same forest laid
// out for speed, which computes what it can; convert.go turns pickles into
// forests in a process of its own.
package fil
