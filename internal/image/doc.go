// Package image owns container images: layers of files that are the same bytes for the
// same files, images on a base or on nothing, the list of what is in them (SBOM), and
// the forms they are written in. No daemon takes part. Open build.go first, then tree.go.
//
// It knows nothing of the server: internal/cli/image makes images of models with it
// (`neso image build`), internal/cli/image/release those of the project (`make images`).
package image
