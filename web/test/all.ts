import './code.ts';
import './format.ts';
import './markdown.ts';
import './places.ts';
