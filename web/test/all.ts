import './agents';
import './code.ts';
import './follow.ts';
import './format.ts';
import './graph.ts';
import './tracks.ts';
import './markdown.ts';
import './places.ts';
