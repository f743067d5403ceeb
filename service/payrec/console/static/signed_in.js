// Tells the tabs that wait for a session that there is one, and whose.
import { tellSignedIn } from "./console.js";

tellSignedIn(document.getElementById("signed-in").dataset.user);
window.close();
