// Package confcenter holds no code: it is where the rules of the whole module are
// tested. The program is cmd/confcenter, the Go SDK is client, and
// ARCHITECTURE.md says how the packages fit together.
package confcenter
