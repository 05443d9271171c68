// Package dist makes the archive that runs on other machines (`make dist`), and tries it there (`make dist-check`).
//
// Build: a checkout whose set-up is done → dist/sluice-<version>-linux-<machine>-glibc<needed>.tar.gz and SHA256SUMS
// beside it. The archive holds one folder: bin/sluice, lib/ (ONNX Runtime), share/ (completions, documents),
// licences/ of everything that is linked or shipped, SHA256SUMS. The C library that it needs is read from the binaries.
// A module, crate or library without a licence file is an error (ErrNoLicence), and so is a binary that asks for a
// library which neither the archive nor every Linux has (ErrNeeds).
//
// Check: an archive and the root folder of another system → a run of doctor, ingest, calibrate, gate and ask there.
package dist
