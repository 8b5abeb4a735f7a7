// Package blob serves models from object stores: s3:// (Amazon S3 and what
// speaks its protocol), gs:// (Google Cloud Storage) and as:// (Azure Blob
// Storage). A model's files are downloaded in ranges into a cache whose keys
// are the store's ETags, checked, and linked into a directory of their own that
// stays until the model's last use; nothing half-written is ever seen.
//
// Open repository.go first; store.go says what a store can do, s3.go, gcs.go
// and azure.go do it over each store's REST interface; cache.go and download.go
// bring the files here.
package blob
