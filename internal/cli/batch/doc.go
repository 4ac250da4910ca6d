// Package batch answers the questions of a dataset by an engine that it starts beside itself: what the tasks of `fermi service batch` run.
//
// Place: layer 5, below the commands of services. It runs as a user's process in each replica of a task, and knows of Fermi what any script knows.
// Promise: what is left has one answer to each question; a question whose answer was written down is not asked again, whatever was
// killed between. Enemies: lines that are torn, an engine that dies, answers that never end, a second attempt on another machine.
package batch
