// Package dist makes what runs on other machines (`make dist`): an archive, and a package of Debian and a container
// image of the same files; and it tries them there (`make dist-check`).
//
// Build: a checkout whose set-up is done → dist/sluice-<version>-linux-<machine>-glibc<needed>.tar.gz and SHA256SUMS
// beside it. The archive holds one folder: bin/sluice, lib/ (ONNX Runtime), share/ (completions, documents),
// licences/ of everything that is linked or shipped, SHA256SUMS. The C library that it needs is read from the binaries.
// A module, crate or library without a licence file is an error (ErrNoLicence), and so is a binary that asks for a
// library which neither the archive nor every Linux has (ErrNeeds).
//
// Check: an archive, what lies beside it, and the root folder of another system → a run of doctor, ingest, calibrate,
// gate, ask and serve there.
package dist
