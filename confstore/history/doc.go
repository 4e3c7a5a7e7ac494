// Package history is the model of what has become of the documents of a configuration: who
// changed what, when and why, and what they were at any revision. It reads what package
// confstore/log has written.
package history
