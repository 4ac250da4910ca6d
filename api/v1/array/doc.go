// Package array is the kind TaskArray: one training task many times, each time with another index.
//
// Place: layer 1, over the vocabulary. Promise: users write the spec, which is a task's with the indexes; its controller makes the
// tasks, which are training tasks like all others, and writes the status. An index has one task, once.
// Enemies: an index that runs twice, a list of ten thousand things where one says it all.
package array
