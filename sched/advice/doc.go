// Package advice is what people are told of work that waits or is refused: reasons, evidence, and the changes that
// would help, in both languages.
//
// Place: layer 2, under sched, which finds them; it knows no cluster. Promise: every reason and every wrong is in
// one table with its meaning. Enemies: texts that differ between the API, the command line and the console.
package advice
