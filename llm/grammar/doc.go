// Package grammar prepares what a completion must follow. Check reads a grammar in GBNF, the notation of llama.cpp, and
// FromSchema turns a JSON Schema into one whose every text is a JSON value that the schema accepts.
//
// # Grammars
//
// The notation is llama.cpp's, with the start rule "root". Check refuses, with a position, what llama.cpp refuses and
// what it would misread or never finish: a rule defined twice (the last one would win), a repetition above 2000 (read
// as "without limit"), an empty class, a reversed range, hidden left recursion whose states never end, a rule that no
// finite text satisfies. Token references (<think>, <[1000]>) depend on a vocabulary and are refused.
//
// Check does not find ambiguity: llama.cpp follows every way to read a text at the same time, so a grammar with a
// number of ways that grows with the text (root ::= "a" root "b" | "a" root "c" | "d") takes ever longer.
//
// # Schemas
//
// A schema is a subset of JSON Schema 2020-12, about what OpenAI's structured outputs take:
//
//   - type (one or a list), enum, const, anyOf, oneOf, allOf, $ref into the same document (recursive too), $defs and
//     definitions. oneOf is read as anyOf: a value that two alternatives accept is admitted. Schemas that apply
//     together (allOf; $ref, anyOf and oneOf beside other keywords) are joined into one where that is possible: two
//     patterns, two prefixItems and steps that are not multiples of each other are refused;
//   - objects: properties and required. Properties come in the schema's order, the optional ones may be left out;
//     others than the declared ones are not written, whatever additionalProperties (true or false) allows. Only an
//     object schema without properties lets any object through;
//   - arrays: items, prefixItems, minItems, maxItems;
//   - strings: minLength, maxLength, format (date-time, date, time, duration, email, hostname, ipv4, ipv6, uuid) and
//     pattern: literals, classes, groups, alternatives and repetitions, with ^ and $ at the ends or any text there
//     without them;
//   - integers and numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (of a number: whole, or a
//     power of ten);
//   - title, description, default, examples, deprecated, readOnly, writeOnly, $comment, $schema, $id and OpenAPI's
//     discriminator are ignored.
//
// Everything else is refused by name, as is a schema that nothing satisfies; unused definitions are not read. The
// grammar may admit less than the schema: numbers have at most 15 digits before the point where no bound asks for more,
// keys keep their order, and a pattern's characters are escaped in one way only. Except for oneOf, and for keys that
// repeat in an object of any shape, it never admits more.
//
// Text is compact, with at most one space after a colon or a comma, so that white space cannot go on for ever.
package grammar
