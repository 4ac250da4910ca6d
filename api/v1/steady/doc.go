// Package steady is the status of work that is started, kept running and started again as a whole.
//
// Place: layer 1, over the vocabulary; kinds that run so have it in their status, and control/work decides it.
// Promise: one writer, the kind's controller. Enemies: a kind that counts attempts or restarts in a way of its own.
package steady
