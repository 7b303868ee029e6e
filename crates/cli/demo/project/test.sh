#!/bin/sh
# Every check of this project.
set -e
[ "$(sh greet.sh)" = "Hello, world!" ]
[ "$(sh greet.sh Ada)" = "Hello, Ada!" ]
echo "the old greetings still work"
