// Tells the tabs that wait for a session that there is one, and whose.
new BroadcastChannel("payrec-console").postMessage({ signedIn: document.getElementById("signed-in").dataset.user });
window.close();
